"""What the kernel of a simulated node says: a hang shows on one node, counters never fall, a reboot starts anew."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter import metrics as m
from exporter.metrics import Family
from exporter.readings import Sample
from exporter.scenario import Scenario, read_scenario
from exporter.simulate import Fleet
from exporter.simulated_gpu import GpuTimeline
from exporter.simulated_node import spent_s
from tests.exporter.collecting import LAW

FAULTS = [
    {"at_s": 60, "duration_s": 60, "kind": "gpu_lost", "nodes": ["n1"], "gpu": 0},
    {"at_s": 200, "duration_s": 400, "kind": "hang", "nodes": ["n2"]},
    {"at_s": 700, "duration_s": 50, "kind": "node_down", "nodes": ["n1"]},
]
NODE_FAMILIES = tuple(
    family
    for family in m.FAMILIES
    if family.field.startswith(("node_pressure", "node_blocked", "nfs_", "disk_", "job_"))
)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return Fleet(scenario(tmp_path_factory.mktemp("scenario")), 1_700_000_000.0)


def scenario(folder: Path) -> Scenario:
    document = {
        "nodes": ["n1", "n2", "n3"],
        "gpus_per_node": 4,
        "jobs": [{"job": "101", "nodes": ["n1", "n2"]}],
        "faults": FAULTS,
        "repeat_s": 900,
    }
    path = folder / "scenario.json"
    path.write_text(json.dumps(document))
    return read_scenario(path)


def values(samples: Iterable[Sample] | None, family: Family) -> dict[tuple[str, ...], float]:
    assert samples is not None
    found = [(s.labels, s.value) for s in samples if s.family is family]
    assert len(dict(found)) == len(found)
    return dict(found)


def test_every_family_of_a_node_is_there(fleet: Fleet) -> None:
    assert len(NODE_FAMILIES) == 11
    samples = fleet.samples("n1", 10.0)
    for family in NODE_FAMILIES:
        assert values(samples, family), family.name
    free = fleet.samples("n3", 10.0)
    assert [family for family in NODE_FAMILIES if not values(free, family)] == [m.JOB_PRESSURE_STALL]


@pytest.mark.parametrize("period", [0, 1, 40])
def test_a_hang_shows_as_blocked_loaders_on_one_node_of_the_job(fleet: Fleet, period: int) -> None:
    at_s = 900.0 * period + 500
    first, other = fleet.samples("n1", at_s), fleet.samples("n2", at_s)
    assert values(first, m.NODE_BLOCKED_TASKS) == {("nvidia",): 0, ("nfs",): 4, ("other",): 0}
    assert values(first, m.NODE_BLOCKED_TASK_OLDEST)["nfs",] == pytest.approx(300)
    assert set(values(other, m.NODE_BLOCKED_TASKS).values()) == {0}
    before = values(fleet.samples("n1", at_s - 100), m.NFS_OPS)
    assert values(first, m.NFS_OPS) == before  # nothing ends while the server is silent
    assert values(other, m.NFS_OPS)["/data", "READ"] > before["/data", "READ"]


def test_pressure_of_a_hang_is_that_of_the_node_and_of_its_job(fleet: Fleet) -> None:
    for family, key in ((m.NODE_PRESSURE_STALL, ("io", "full")), (m.JOB_PRESSURE_STALL, ("101", "io", "full"))):
        before, after = (values(fleet.samples("n1", at_s), family)[key] for at_s in (300.0, 400.0))
        assert 90 < after - before <= 100
    job = values(fleet.samples("n1", 400.0), m.JOB_PRESSURE_STALL)
    for (_, *key), value in job.items():
        assert value <= values(fleet.samples("n1", 400.0), m.NODE_PRESSURE_STALL)[tuple(key)]


def test_what_waited_is_counted_when_the_hang_ends(fleet: Fleet) -> None:
    def read(family: Family, at_s: float) -> float:
        return values(fleet.samples("n1", at_s), family)["/data", "READ"]

    assert (read(m.NFS_TIMEOUTS, 599), read(m.NFS_TIMEOUTS, 601)) == (0, 8)  # 400 s: two timeouts for each of 4
    assert read(m.NFS_RETRANS, 601) == 8
    assert read(m.NFS_OP_SECONDS, 601) - read(m.NFS_OP_SECONDS, 599) == pytest.approx(1600, rel=0.01)


def test_a_lost_gpu_holds_a_thread_in_the_driver(fleet: Fleet) -> None:
    samples = fleet.samples("n1", 90.0)
    assert values(samples, m.NODE_BLOCKED_TASKS)["nvidia",] == 1
    assert values(samples, m.NODE_BLOCKED_TASK_OLDEST)["nvidia",] == 30
    assert values(fleet.samples("n1", 130.0), m.NODE_BLOCKED_TASKS)["nvidia",] == 0


@LAW
@given(st.lists(st.floats(0, 3000), min_size=2, max_size=12), st.sampled_from(["n1", "n2", "n3"]))
def test_counters_never_fall_between_boots(fleet: Fleet, times_s: list[float], name: str) -> None:
    before: dict[tuple[str, tuple[str, ...]], float] = {}
    boot = ""
    for at_s in sorted(times_s):
        samples = fleet.samples(name, at_s)
        if samples is None:
            continue
        [info] = [s for s in samples if s.family is m.NODE_INFO]
        if info.labels[1] != boot:
            boot, before = info.labels[1], {}
        now = {
            (s.family.name, s.labels): s.value
            for s in samples
            if s.family in NODE_FAMILIES and s.family.kind == "counter"
        }
        assert all(value >= before.get(key, 0.0) for key, value in now.items())
        before = now


def test_counters_start_anew_with_the_node(fleet: Fleet) -> None:
    for family in NODE_FAMILIES:
        if family.kind == "counter":
            assert max(values(fleet.samples("n1", 751.0), family).values()) < 200
    assert max(values(fleet.samples("n1", 751.0), m.NFS_TIMEOUTS).values()) == 0


@LAW
@given(st.floats(0, 5000))
def test_time_in_a_mode_is_the_sum_over_small_steps(tmp_path_factory: pytest.TempPathFactory, at_s: float) -> None:
    timeline = GpuTimeline(scenario(tmp_path_factory.getbasetemp()), "n1", 1, True, random.Random(1))
    steps = 2000
    counted = sum(timeline.mode((n + 0.5) * at_s / steps) == "hang" for n in range(steps)) * at_s / steps
    assert spent_s(timeline, "hang", at_s) == pytest.approx(counted, abs=12 * at_s / steps + 1e-9)
