"""The simulated fleet: what each fault looks like, that nothing depends on who asks, and the served side."""

from __future__ import annotations

import http.client
import itertools
import json
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exporter import metrics as m
from exporter.metrics import FAMILIES, Family
from exporter.page import render
from exporter.readings import Sample
from exporter.scenario import Scenario
from exporter.simulate import Fleet, FleetApp, read_scenario
from tests.exporter.conftest import StartExporter
from tests.exporter.families import TWO_CYCLES
from tests.exporter.harness import ROOTS, Exporter, Page, environment, request, run_exporter

START_S = 1_700_000_000.0
DOCUMENT: dict[str, Any] = {
    "nodes": ["n1", "n2", "n3"],
    "gpus_per_node": 4,
    "jobs": [{"job": "101", "nodes": ["n1", "n2"]}],
    "faults": [
        {"at_s": 60, "duration_s": 60, "kind": "gpu_lost", "nodes": ["n1"], "gpu": 3},
        {"at_s": 200, "duration_s": 60, "kind": "hang", "nodes": ["n2"]},
        {"at_s": 300, "duration_s": 100, "kind": "thermal", "nodes": ["n1"], "gpu": 1},
        {"at_s": 500, "duration_s": 60, "kind": "power_cap", "nodes": ["n1"]},
        {"at_s": 600, "duration_s": 50, "kind": "node_down", "nodes": ["n1"]},
    ],
    "repeat_s": 900,
    "seed": 7,
}


def scenario(folder: Path, **changes: object) -> Scenario:
    path = folder / "scenario.json"
    path.write_text(json.dumps({**DOCUMENT, **changes}))
    return read_scenario(path)


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(scenario(tmp_path), START_S)


def by_slot(samples: list[Sample] | None, family: Family, *labels: str) -> list[float]:
    """Values of a per-GPU family, in slot order."""
    assert samples is not None
    found = {s.labels[1]: s.value for s in samples if s.family is family and s.labels[2:] == labels}
    return [found[slot] for slot in sorted(found)]


def one(samples: list[Sample] | None, family: Family) -> Sample:
    assert samples is not None
    found = [s for s in samples if s.family is family]
    assert len(found) == 1
    return found[0]


def test_every_page_says_that_it_is_simulated(fleet: Fleet) -> None:
    samples = fleet.samples("n1", 10)
    assert one(samples, m.EXPORTER_INFO).labels[1] == "simulated"
    assert samples is not None
    assert {"(simulated)" in s.labels[2] for s in samples if s.family is m.GPU_INFO} == {True}


def test_a_model_name_cannot_hide_it(tmp_path: Path) -> None:
    assert scenario(tmp_path, model="NVIDIA H100").model == "NVIDIA H100 (simulated)"


def test_a_simulated_page_has_the_families_and_labels_of_a_real_one(
    fleet: Fleet, start: StartExporter, tmp_path: Path
) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (jobs / "0").write_text("101\n")
    exporter = start(*ROOTS, f"--collector.job.directory={jobs}")
    real = exporter.wait(lambda p: all(p.find(name) for name in TWO_CYCLES) and p.find("gpu_workload_info"))
    samples = fleet.samples("n1", 10)
    assert samples is not None
    simulated = Page(render(samples)[0].decode())

    def shape(page: Page) -> dict[str, set[frozenset[tuple[str, str]]]]:
        closed = {"collector", "reason", "state", "kind", "scope", "location", "sensor", "domain", "xid", "type", "dir"}
        closed |= {"attr", "which", "availability", "field", "resource", "class", "source"}
        return {
            name: {
                frozenset((k, v if k in closed else "") for k, v in sample.labels.items()) for sample in family.samples
            }
            for name, family in page.families.items()
        }

    assert shape(simulated) == shape(real)


def test_allocated_gpus_work_and_free_ones_idle(fleet: Fleet) -> None:
    busy, idle = fleet.samples("n1", 30), fleet.samples("n3", 30)
    assert by_slot(busy, m.GPU_ALLOCATED) == [1.0] * 4
    assert by_slot(idle, m.GPU_ALLOCATED) == [0.0] * 4
    assert min(by_slot(busy, m.GPU_UTILIZATION)) > 0.9
    assert by_slot(idle, m.GPU_UTILIZATION) == [0.0] * 4
    assert min(by_slot(busy, m.GPU_POWER)) > 500
    assert max(by_slot(idle, m.GPU_POWER)) < 100
    assert busy is not None and idle is not None
    jobs = {s.labels[2:4] for s in busy if s.family is m.GPU_WORKLOAD_INFO}
    assert jobs == {("slurm", "101")}
    assert not [s for s in idle if s.family is m.GPU_WORKLOAD_INFO]


def test_a_lost_gpu_has_no_readings_and_one_xid(fleet: Fleet) -> None:
    samples = fleet.samples("n1", 90)
    assert by_slot(samples, m.GPU_UP) == [1, 1, 1, 0]
    assert by_slot(samples, m.GPU_DOWN_REASON, "lost") == [1]
    assert len(by_slot(samples, m.GPU_POWER)) == 3
    assert one(samples, m.GPUS_VISIBLE).value == 3
    for source in ("nvml", "kmsg"):
        assert by_slot(samples, m.GPU_XID_EVENTS, "79", source) == [0, 0, 0, 1]
    assert by_slot(samples, m.GPU_XID_LAST, "79") == [START_S + 60]
    assert by_slot(samples, m.GPU_ALLOCATED) == [1.0] * 4
    after = fleet.samples("n1", 130)
    assert by_slot(after, m.GPU_UP) == [1, 1, 1, 1]
    assert by_slot(after, m.GPU_XID_EVENTS, "79", "nvml") == [0, 0, 0, 1]
    assert by_slot(after, m.GPU_ENERGY)[3] < 10_000  # the counter started anew


def test_a_hang_is_busy_at_low_power_on_every_node_of_the_job(fleet: Fleet) -> None:
    for name in ("n1", "n2"):
        samples = fleet.samples(name, 230)
        assert by_slot(samples, m.GPU_UTILIZATION) == [1.0] * 4
        assert max(by_slot(samples, m.GPU_POWER)) < 0.3 * 700
        assert by_slot(samples, m.GPU_UP) == [1.0] * 4
    assert by_slot(fleet.samples("n3", 230), m.GPU_UTILIZATION) == [0.0] * 4


def test_thermal_and_power_cap(fleet: Fleet) -> None:
    hot = fleet.samples("n1", 390)
    assert [c > 80 for c in by_slot(hot, m.GPU_TEMPERATURE, "gpu")] == [False, True, False, False]
    clocks = by_slot(hot, m.GPU_CLOCK, "sm")
    assert clocks[1] < 0.7 * clocks[0]
    capped = fleet.samples("n1", 530)
    assert by_slot(capped, m.GPU_POWER_LIMIT, "enforced") == [400.0] * 4
    assert by_slot(capped, m.GPU_POWER_LIMIT, "default") == [700.0] * 4
    assert max(by_slot(capped, m.GPU_POWER)) < 405


def test_clock_events_say_what_the_fault_does(fleet: Fleet) -> None:
    def active(at_s: float) -> list[set[str]]:
        samples = fleet.samples("n1", at_s)
        assert samples is not None
        rows = [s for s in samples if s.family is m.GPU_CLOCK_EVENT_ACTIVE and s.value]
        slots = sorted({s.labels[1] for s in samples if s.family is m.GPU_UP})
        return [{s.labels[2] for s in rows if s.labels[1] == slot} for slot in slots]

    thermal = {"hw_slowdown", "sw_thermal", "hw_thermal"}
    assert active(390) == [set(), thermal, set(), set()]
    assert active(530) == [{"sw_power_cap"}] * 4
    heated = [
        by_slot(fleet.samples("n1", at_s), m.GPU_CLOCK_EVENT_SECONDS, "hw_thermal")[1] for at_s in (300, 350, 450)
    ]
    assert heated == [0.0, 50.0, 100.0]
    assert by_slot(fleet.samples("n1", 390), m.GPU_TEMPERATURE_MARGIN)[1] < 5
    capped = [by_slot(fleet.samples("n1", at_s), m.GPU_CLOCK_EVENT_SECONDS, "sw_power_cap")[0] for at_s in (520, 655)]
    assert capped == [20.0, 0.0]  # the node has booted anew


def test_a_hung_job_is_active_and_computes_nothing(fleet: Fleet) -> None:
    works, hangs, idles = fleet.samples("n2", 190), fleet.samples("n2", 230), fleet.samples("n3", 230)
    assert min(by_slot(works, m.GPU_TENSOR_ACTIVE)) > 0.4
    assert by_slot(hangs, m.GPU_TENSOR_ACTIVE) == [0.0] * 4
    assert max(by_slot(hangs, m.GPU_DRAM_ACTIVE)) < 0.01
    assert min(by_slot(hangs, m.GPU_SM_ACTIVE)) > 0.9
    assert by_slot(idles, m.GPU_SM_ACTIVE) == [0.0] * 4
    assert [by_slot(page, m.GPU_PROCESSES) for page in (works, hangs, idles)] == [[1.0] * 4, [1.0] * 4, [0.0] * 4]
    later = fleet.samples("n2", 191)
    assert by_slot(works, m.GPU_TENSOR_ACTIVE) != by_slot(later, m.GPU_TENSOR_ACTIVE)


def test_a_hung_job_sends_nothing(fleet: Fleet) -> None:
    def bytes_sent(at_s: float) -> float:
        return by_slot(fleet.samples("n2", at_s), m.GPU_NVLINK_BYTES, "tx")[0]

    assert bytes_sent(190) < bytes_sent(200) == bytes_sent(259) < bytes_sent(270)
    assert by_slot(fleet.samples("n2", 230), m.GPU_PCIE_BYTES, "rx") == [0.0] * 4
    assert min(by_slot(fleet.samples("n2", 190), m.GPU_PCIE_BYTES, "rx")) > 1e9


@pytest.mark.parametrize("family", [f for f in FAMILIES if f.kind == "counter" and f.per_gpu], ids=lambda f: f.name)
def test_simulated_counters_never_fall_between_resets(fleet: Fleet, family: Family) -> None:
    last: dict[tuple[str, ...], float] = {}
    for at_s in range(120, 600, 7):  # after the lost GPU, before the node goes down; hang, heat and power cap within
        samples = fleet.samples("n1", float(at_s))
        assert samples is not None
        now = {s.labels: s.value for s in samples if s.family is family}
        assert now.keys() == (last or now).keys()
        assert all(now[labels] >= value for labels, value in last.items())
        last = now


def test_a_node_that_was_down_has_booted_anew(fleet: Fleet) -> None:
    before, after = fleet.samples("n1", 590), fleet.samples("n1", 660)
    assert fleet.samples("n1", 600) is None
    assert fleet.samples("n1", 649) is None
    assert fleet.samples("n2", 620) is not None
    assert one(before, m.NODE_INFO).labels[1] != one(after, m.NODE_INFO).labels[1]
    assert by_slot(after, m.GPU_XID_EVENTS, "79", "nvml") == [0, 0, 0, 0]
    assert max(by_slot(after, m.GPU_ENERGY)) < 20_000
    assert after is not None
    assert max(s.value for s in after if s.family is m.NODE_PRESSURE_STALL) < 1


def test_the_host_dies_with_the_node_and_with_nothing_else(fleet: Fleet) -> None:
    for at_s in (90, 230, 390, 530):  # lost GPU, hang, heat, power cap
        assert fleet.host("n1", at_s) is not None
    assert fleet.host("n1", 600) is None
    assert fleet.host("n1", 649) is None
    assert fleet.host("n2", 620) is not None
    before, after = fleet.host("n1", 590), fleet.host("n1", 660)
    assert before is not None and after is not None
    assert before.boot_time_s < START_S
    assert after.boot_time_s == START_S + 650
    idle = fleet.host("n3", 30)
    assert idle is not None and idle.load1 < 1 < before.load1


def test_faults_repeat(fleet: Fleet) -> None:
    assert by_slot(fleet.samples("n1", 900 * 40 + 90), m.GPU_UP) == [1, 1, 1, 0]
    assert by_slot(fleet.samples("n1", 900 * 40 + 90), m.GPU_XID_LAST, "79") == [START_S + 900 * 40 + 60]


def test_energy_is_the_integral_of_power_and_never_falls_between_resets(fleet: Fleet) -> None:
    times_s = [120 + 0.25 * n for n in range(4 * 100)]  # over the begin of the hang on n2
    energies = [by_slot(fleet.samples("n2", at_s), m.GPU_ENERGY)[0] for at_s in times_s]
    powers = [by_slot(fleet.samples("n2", at_s), m.GPU_POWER)[0] for at_s in times_s]
    assert all(a < b for a, b in itertools.pairwise(energies))
    integral = sum((a + b) / 2 * 0.25 for a, b in itertools.pairwise(powers))
    assert energies[-1] - energies[0] == pytest.approx(integral, rel=2e-3)


def test_pressure_counters_move_and_never_fall(fleet: Fleet) -> None:
    def some_io(at_s: float) -> float:
        samples = fleet.samples("n2", at_s)
        assert samples is not None
        return next(s.value for s in samples if s[:2] == (m.NODE_PRESSURE_STALL, ("io", "some")))

    values = [some_io(float(at_s)) for at_s in range(0, 200, 5)]
    assert all(a < b for a, b in itertools.pairwise(values))


def test_the_same_seed_gives_the_same_pages_whoever_asks_and_in_which_order(tmp_path: Path) -> None:
    asked = [(name, at_s) for name in ("n1", "n2", "n3") for at_s in (0.0, 12.5, 90.0, 650.0, 5000.0)]
    first, second = Fleet(scenario(tmp_path), START_S), Fleet(scenario(tmp_path), START_S)
    pages = {key: first.samples(*key) for key in asked}
    random.Random(1).shuffle(asked)
    assert all(second.samples(*key) == pages[key] for key in asked)
    other = Fleet(scenario(tmp_path, seed=8), START_S)
    assert other.samples("n1", 12.5) != pages["n1", 12.5]


def test_a_page_of_eight_gpus_costs_a_few_milliseconds(tmp_path: Path) -> None:
    nodes = [f"node-{n:03d}" for n in range(200)]
    big = scenario(tmp_path, nodes=nodes, gpus_per_node=8, jobs=[{"job": "1", "nodes": nodes[:150]}], faults=[])
    fleet = Fleet(big, START_S)
    costs_s: list[float] = []
    for name in nodes:
        began_s = time.process_time()
        samples = fleet.samples(name, 3600.0)
        assert samples is not None
        render(samples)
        costs_s.append(time.process_time() - began_s)
    assert sorted(costs_s)[100] < 0.02  # about 4 ms on one core; the margin is for a busy machine


def test_targets_name_the_address_by_which_they_were_asked_for(tmp_path: Path) -> None:
    app = FleetApp(scenario(tmp_path), clock=lambda: 0.0, wall=lambda: START_S)
    response = app.respond("/targets", {"host": "demo.example:9844"})
    assert response is not None and response.content_type == "application/json"
    groups = json.loads(response.body)
    assert groups[0] == {
        "targets": ["demo.example:9844"],
        "labels": {"__metrics_path__": "/node/n1/metrics", "node": "n1"},
    }
    assert len(groups) == 3
    hosts = app.respond("/targets/host", {"host": "demo.example:9844"})
    assert hosts is not None
    assert json.loads(hosts.body)[0] == {
        "targets": ["demo.example:9844"],
        "labels": {"__metrics_path__": "/node/n1/host", "node": "n1"},
    }
    refused = app.respond("/targets", {"host": 'x"y'})
    assert refused is not None and refused.status == 400


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Exporter]:
    """A served fleet in which n3 is down from the start."""
    down = [{"at_s": 0, "duration_s": 900, "kind": "node_down", "nodes": ["n3"]}]
    path = tmp_path / "served.json"
    path.write_text(json.dumps({**DOCUMENT, "faults": down}))
    exporter = Exporter([f"--simulate={path}"], environment(None, None))
    yield exporter
    assert exporter.stop() == 0


def test_one_process_serves_every_node(served: Exporter) -> None:
    for name in ("n1", "n2"):
        assert served.page(f"/node/{name}/metrics").labels("node_info")["hostname"] == name
    for page in ("metrics", "host"):
        with pytest.raises(http.client.RemoteDisconnected):
            request(served.port, f"/node/n3/{page}")
    assert request(served.port, "/node/n4/metrics")[0] == 404
    assert "SIMULATED" in request(served.port, "/")[2]
    promtool = shutil.which("promtool")
    assert promtool is not None, "promtool is missing: install it with `apt-get install prometheus`"
    host = served.page("/node/n1/host")
    assert set(host.families) == {"node_boot_time_seconds", "node_load1"}
    for page in (served.page("/node/n1/metrics").text, host.text):
        linted = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True, text=True)
        assert (linted.returncode, linted.stdout + linted.stderr) == (0, "")


def test_prometheus_discovers_every_node_and_sees_who_is_down(served: Exporter, tmp_path: Path) -> None:
    prometheus = shutil.which("prometheus")
    assert prometheus is not None, "prometheus is missing: install it with `apt-get install prometheus`"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = tmp_path / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
        "scrape_configs:\n"
        "  - job_name: gpu\n"
        "    http_sd_configs:\n"
        f"      - {{url: 'http://127.0.0.1:{served.port}/targets', refresh_interval: 1s}}\n"
    )
    line = [prometheus, f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'tsdb'}"]
    line += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    process = subprocess.Popen(line)
    try:
        up: dict[str, str] = {}
        end_s = time.monotonic() + 30
        while len(up) < 3 and time.monotonic() < end_s:
            time.sleep(0.2)
            try:
                answer = json.loads(request(port, "/api/v1/query?query=up")[2])
            except (OSError, ValueError):
                continue  # not serving yet
            up = {row["metric"]["node"]: row["value"][1] for row in answer["data"]["result"]}
        assert up == {"n1": "1", "n2": "1", "n3": "0"}
    finally:
        process.terminate()
        process.wait(20)


def test_help_and_once_say_what_simulation_is(tmp_path: Path) -> None:
    bare = environment(None, None)
    assert "simulated nodes" in run_exporter("--help", env=bare).stdout
    refused = run_exporter("--once", f"--simulate={tmp_path}", env=bare)
    assert refused.returncode == 2 and "--once" in refused.stderr
