"""The worker as a process: what it says about itself while Prometheus is away and back, and what wakes it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.conftest import Cli
from tests.detect.server import started
from tests.servers import free_port
from warehouse import clock
from warehouse.model.time import format_instant
from warehouse.store.inbox import CHANNEL

FLEET = "site,hall,rack,node,gpus,model,commissioned\ns,h,r,n1,8,H100,2026-03-01\n"


def said(address: str, name: str) -> float | None:
    """Gives a value of the worker's page, None where it is absent."""
    try:
        page = httpx.get(f"{address}/metrics", trust_env=False, timeout=5).text
    except httpx.TransportError:
        return None
    found = re.search(rf"^gpuminutes_worker_{re.escape(name)} (\S+)$", page, flags=re.MULTILINE)
    return float(found[1]) if found else None


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    """Waits until something holds."""
    give_up = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < give_up, "it did not come to hold"
        time.sleep(0.1)


@pytest.fixture
def address_of_prometheus() -> int:
    return free_port()


@pytest.fixture
def page(
    cli: Cli, database_url: str, tmp_path: Path, address_of_prometheus: int, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Gives the address of a worker's page; the worker looks every ten minutes, unless something wakes it."""
    (tmp_path / "fleet.csv").write_text(FLEET)
    assert cli("fleet", "load", "fleet.csv").code == 0
    port = free_port()
    since = format_instant(clock.now_ms() - 600_000)
    command = [sys.executable, "-m", "warehouse", "run", "--every", "600", "--since", since]
    worker = subprocess.Popen(
        [*command, "--listen", f"127.0.0.1:{port}"],
        env=os.environ
        | {
            "GPU_MINUTES_DATABASE_URL": database_url,
            "GPU_MINUTES_PROMETHEUS_URL": f"http://127.0.0.1:{address_of_prometheus}",
        },
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        worker.send_signal(signal.SIGTERM)
        _, err = worker.communicate(timeout=30)
    assert worker.returncode == 0
    lines = err.splitlines()
    assert lines and all(line.startswith(("gpu-minutes: http://127.0.0.1:", "looked at ")) for line in lines), err


@pytest.mark.slow
def test_a_worker_without_prometheus_says_so_and_goes_on_when_it_is_back(
    page: str, database_url: str, tmp_path: Path, address_of_prometheus: int
) -> None:
    until(lambda: said(page, 'failures_total{reason="unreachable"}') == 1)
    assert said(page, "read_until_timestamp_seconds") is None
    assert (said(page, "prometheus_retries_total") or 0) > 0
    config = tmp_path / "prometheus.yml"
    config.write_text("global: {scrape_interval: 15s}\n")
    command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}"]
    server = started(tmp_path, command, "--web.listen-address=", "/-/ready", address_of_prometheus)
    with server, psycopg.connect(database_url, autocommit=True) as door:
        door.execute(f"notify {CHANNEL}".encode())
        until(lambda: said(page, "read_until_timestamp_seconds") is not None)
        read_s = said(page, "read_until_timestamp_seconds")
        assert read_s is not None and 30 <= clock.now_ms() / 1000 - read_s < 120
        assert said(page, "complete_until_timestamp_seconds") == read_s - 900
        assert (said(page, 'looks_total{kind="first"}') or 0) >= 1
        assert said(page, 'detector_blind{detector="gpu_off_bus"}') == 1
        assert said(page, "woken_total") == 1
