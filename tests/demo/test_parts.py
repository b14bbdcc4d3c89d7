"""The parts that need no process: scenario, configuration, ports, the lock."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import random
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from exporter.scenario import read_scenario
from tests.servers import free_port
from warehouse.demo.history import history_window, make_history
from warehouse.demo.layout import Layout, take_lock
from warehouse.demo.ports import Ports
from warehouse.demo.prometheus import prometheus_config
from warehouse.demo.scenario import make_scenario
from warehouse.demo.stack import Setup, _child_env, clean
from warehouse.errors import BadInput

NOW_MS = 1_790_000_000_000


def test_the_scenario_is_one_that_the_exporter_takes(tmp_path: Path) -> None:
    running = make_history(random.Random(1), history_window(NOW_MS)).running
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(make_scenario(random.Random(1), running)))
    scenario = read_scenario(path)
    assert len(scenario.nodes) * scenario.gpus_per_node == 256
    assert scenario.model == "H100-SXM (simulated)"
    assert set(scenario.job_by_node.values()) == set(running)
    early = {fault.kind for fault in scenario.faults if fault.at_s < 180}
    assert early == {"node_down", "gpu_lost", "hang"}
    assert scenario.repeat_s is not None
    by_node: dict[str, list[tuple[float, float]]] = {}
    for fault in scenario.faults:
        # Long enough for its detector: two scrapes, and five minutes for a hang.
        assert fault.end_s - fault.at_s > (480 if fault.kind == "hang" else 60)
        for node in fault.nodes:
            by_node.setdefault(node, []).append((fault.at_s, fault.end_s))
    for spans in by_node.values():
        spans.sort()
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans)), spans


def test_prometheus_takes_the_configuration(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    assert promtool is not None, "promtool is missing: install it with `apt-get install prometheus`"
    path = tmp_path / "prometheus.yml"
    path.write_text(prometheus_config("127.0.0.1:9844"))
    checked = subprocess.run([promtool, "check", "config", str(path)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "valid prometheus config file" in checked.stdout


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def ports(said: list[str]) -> Iterator[Ports]:
    found = Ports(said.append)
    yield found
    found.release()


def test_a_port_in_use_is_said_and_left(ports: Ports, said: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        chosen = ports.choose("Prometheus", port)
    assert chosen != port
    assert said == [f"port {port} is in use; Prometheus listens on {chosen} instead"]


def test_a_port_is_given_once_even_to_another_demo(ports: Ports, said: list[str]) -> None:
    port = free_port()
    assert ports.choose("the exporter", port) == port
    assert said == []
    assert ports.choose("Prometheus", port) != port
    other = Ports(said.append)
    assert other.choose("Prometheus", port) != port
    ports.release()
    other.release()
    assert other.choose("the exporter", port) == port
    other.release()


def test_the_lock_keeps_a_second_demo_out(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "home" / "demo")
    lock = take_lock(layout)
    with pytest.raises(BadInput, match=rf"already runs under {layout.root} \(process {os.getpid()}\)"):
        take_lock(layout)
    os.close(lock)
    os.close(take_lock(layout))


def test_a_killed_demo_is_waited_for_while_it_is_cleared_away(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    gone = subprocess.Popen(["true"])
    gone.wait()
    layout.lock.write_text(f"{gone.pid}\n")
    holder = subprocess.Popen(["flock", str(layout.lock), "sleep", "1"])
    try:
        probe = os.open(layout.lock, os.O_RDWR)
        for _ in range(200):
            try:
                fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                break
            fcntl.flock(probe, fcntl.LOCK_UN)
        os.close(probe)
        os.close(take_lock(layout))
    finally:
        holder.wait(10)


def test_clean_removes_a_demo_and_nothing_else(tmp_path: Path, said: list[str]) -> None:
    layout = Layout(tmp_path / "demo")
    clean(layout, said.append)
    assert said == [f"there is no demo under {layout.root}"]
    layout.root.mkdir()
    (layout.root / "thesis.txt").write_text("mine")
    with pytest.raises(BadInput, match="was not made by a demo"):
        clean(layout, said.append)
    assert (layout.root / "thesis.txt").exists()
    lock = take_lock(layout)
    with pytest.raises(BadInput, match="already runs"):
        clean(layout, said.append)
    os.close(lock)
    clean(layout, said.append)
    assert not layout.root.exists()
    assert said[-1] == f"removed {layout.root}"


def test_the_users_servers_and_credentials_stay_out_of_the_demo(tmp_path: Path) -> None:
    mine = {"PATH": "/bin", "GPU_MINUTES_DATABASE_URL": "x", "GPU_MINUTES_HOME": "x", "GPU_MINUTES_PROMETHEUS_URL": "x"}
    mine |= {"GPU_MINUTES_PROMETHEUS_TOKEN_FILE": "x", "GPU_MINUTES_PROMETHEUS_HEADERS_FILE": "x"}

    def never(*_: object) -> NoReturn:
        raise AssertionError("nothing is started here")

    layout = Layout(tmp_path)
    env = _child_env(Setup(layout, mine, None, never, never, never))
    assert env == {"PATH": "/bin", "GPU_MINUTES_HOME": str(layout.root), "PYTHONUNBUFFERED": "1"}
