"""A node dies: its exporter is silent, Prometheus fires, Alertmanager delivers, the worker looks, the ledger knows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.alertmanager import alertmanager
from tests.alerts.serving import serving
from tests.conftest import run_cli
from tests.detect.server import started
from tests.servers import free_port, wait_for

FLEET = "site,hall,rack,node,gpus,model,commissioned\ns,h,r,n1,2,H100,2026-03-01\ns,h,r,n2,2,H100,2026-03-01\n"
# The node is silent from 25 s on, for as long as the test may last.
SCENARIO = {
    "nodes": ["n1", "n2"], "gpus_per_node": 2, "model": "NVIDIA H100 80GB HBM3", "jobs": [], "repeat_s": 3600,
    "seed": 1,
    "faults": [{"at_s": 25, "duration_s": 3000, "kind": "node_down", "nodes": ["n2"]}],
}  # fmt: skip
PROMETHEUS = """global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: [rules.yml]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ["{alerts}"]}}]}}]}}
scrape_configs:
  - {{job_name: gpu-minutes, http_sd_configs: [{{url: "http://{exporter}/targets", refresh_interval: 1s}}]}}
  - {{job_name: node, http_sd_configs: [{{url: "http://{exporter}/targets/host", refresh_interval: 1s}}]}}
"""
ALERTMANAGER = """route:
  {{receiver: ours, group_by: [alertname], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}}
receivers:
  - name: ours
    webhook_configs:
      - url: {url}/v1/alertmanager
        max_alerts: 0
        http_config: {{authorization: {{credentials_file: {credentials}}}}}
"""


@contextmanager
def running(command: list[str], log: Path, **environ: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs one of our programs until the block ends."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=os.environ | environ)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


@pytest.mark.slow
def test_an_alert_makes_the_worker_look_and_samples_date_what_it_finds(database_url: str, tmp_path: Path) -> None:
    """The worker itself would look every ten minutes; the incident stands there within one of the alert."""
    (tmp_path / "fleet.csv").write_text(FLEET)
    assert run_cli(database_url, "fleet", "load", tmp_path / "fleet.csv").code == 0
    rules = run_cli(database_url, "rules", "--scrape-interval", "1", "--evaluate-every", "1")
    (tmp_path / "rules.yml").write_text(rules.out)
    (tmp_path / "scenario.json").write_text(json.dumps(SCENARIO))
    exporter = f"127.0.0.1:{free_port()}"
    simulate = [sys.executable, "-m", "exporter.cli", "--simulate", str(tmp_path / "scenario.json")]
    prometheus = ["prometheus", f"--config.file={tmp_path / 'prometheus.yml'}"]
    worker = [sys.executable, "-m", "warehouse", "run", "--every", "600", "--scrape-interval", "1"]
    with ExitStack() as stack:
        served = stack.enter_context(serving(database_url, tmp_path))
        config = ALERTMANAGER.format(url=served.url, credentials=served.credentials)
        manager = stack.enter_context(alertmanager(tmp_path, config))
        stack.enter_context(running([*simulate, "--web.listen-address", exporter], tmp_path / "exporter.log"))
        wait_for(f"http://{exporter}/-/ready")
        (tmp_path / "prometheus.yml").write_text(
            PROMETHEUS.format(exporter=exporter, alerts=manager.url.removeprefix("http://"))
        )
        data = f"--storage.tsdb.path={tmp_path / 'prometheus'}"
        url = stack.enter_context(started(tmp_path, [*prometheus, data], "--web.listen-address=", "/-/ready"))
        where = {"GPU_MINUTES_DATABASE_URL": database_url, "GPU_MINUTES_PROMETHEUS_URL": url}
        stack.enter_context(running([*worker, "--alertmanager", manager.url], tmp_path / "worker.log", **where))
        found: list[dict[str, object]] = []
        give_up = time.monotonic() + 150
        while not found:
            assert time.monotonic() < give_up, (tmp_path / "worker.log").read_text() + manager.log()[-2000:]
            time.sleep(1)
            answer = run_cli(database_url, "incidents", "--format", "json")
            found = json.loads(answer.out)["incidents"] if answer.code == 0 else []
            found = [incident for incident in found if incident["cause"] == "host/node_unreachable"]
        episode = served.rows("select min(starts_at), count(*) from alert_episode "
                              "where labels ->> 'gpu_minutes_detector' = 'node_unreachable'")  # fmt: skip
    assert found[0]["nodes"] == ["n2"] and found[0]["status"] == "open"
    fired, number = episode[0]
    assert number == 1
    # The alert waited for its 30 s; the evidence begins with the first failed scrape, half a minute earlier.
    assert str(found[0]["start"]) < str(fired).replace(" ", "T")
