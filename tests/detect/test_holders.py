"""Who holds a GPU by another exporter's labels, and which series are narrowed to some nodes: on a real Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from exporter.metrics import GPU_WORKLOAD_INFO
from tests.detect.fleet import Fleet
from tests.detect.server import Signals, prometheus
from warehouse.causes import load_causes
from warehouse.causes.examples import dcgm
from warehouse.detect.observe import observe
from warehouse.detect.render import Form, Only, forms
from warehouse.detect.site import LABELS, Site
from warehouse.detect.words import Settings
from warehouse.evidence.prometheus import PrometheusClient
from warehouse.model.slots import SlotRanges
from warehouse.model.time import Window, parse_instant
from warehouse.signals import load_dialects
from warehouse.signals.rewrite import Use, parse_matchers, rewrite

AT = parse_instant("2026-03-02T10:00:00Z")
STEP_MS = 15_000
NODES = ("n1", "n2", "n3", "n4")
DIALECT = next(dialect for dialect in load_dialects() if dialect.name == "dcgm")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusClient]:
    """Gives a server on which one of two GPUs is held, told by several readings of far different values."""
    signals = Signals()
    for index, holder in ((0, {"hpc_job": "7"}), (1, {})):
        for name, value in (("GPU_UTIL", 100.0), ("POWER_USAGE", 620.0), ("GPU_TEMP", 55.0)):
            signals.put(f"DCGM_FI_DEV_{name}", AT, value, **dcgm(index), **holder)
    folder = tmp_path_factory.mktemp("holders")
    with prometheus(folder, signals) as address, PrometheusClient(address, 60) as found:
        yield found


@pytest.mark.parametrize("function", ["", "present_over_time"])
def test_a_holder_is_one_series_of_value_one(client: PrometheusClient, function: str) -> None:
    """Detectors multiply by it, and it is read off whatever readings there are."""
    use = Use(GPU_WORKLOAD_INFO, parse_matchers('job_id!=""'), function, "60s" if function else "")
    said = rewrite(use, DIALECT, LABELS["dcgm"])
    assert said is not None
    found = client.query(said, AT)
    assert [(series.labels["uuid"], series.labels["job_id"]) for series in found] == [("GPU-n1-0", "7")]
    assert [value for series in found for _, value in series.points] == [1.0]


def _narrowed(key: str) -> Form:
    detector = next(d for cause in load_causes().values() for d in cause.detectors if d.key == key)
    return forms(detector, Site(), 15_000, 900_000, Only('node=~"n1"'))[0]


def test_only_series_about_nodes_are_narrowed_to_nodes() -> None:
    """A pod that waits has no node, and a queue stands on none: asked of some nodes alone, they would vanish."""
    pods, jobs = _narrowed("gpus_free_pods_wait").expr, _narrowed("gpus_free_jobs_wait").expr
    assert 'gpuminutes_gpu_allocated{node=~"n1"}' in pods
    assert 'kube_node_spec_unschedulable{node=~"n1"}' in pods
    assert "(kube_pod_status_unschedulable)" in pods
    assert "slurm_queue_pending)" in jobs
    assert 'up{job=~"slurm|slurm-exporter|slurm_exporter"}' in _narrowed("slurm_silent").expr


@pytest.fixture(scope="module")
def slow_jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusClient]:
    """Gives two hours: in the first, n2 passes from job 8 to job 7; in the second, job 9 is slow since it began."""
    signals = Signals()
    for step, node in product(range(480), NODES):
        at_ms = AT + step * STEP_MS
        signals.put("up", at_ms, 1.0, job="gpu-minutes", node=node)
        for index in range(4):
            labels = {"node": node, "slot": f"0000:{index}a:00", "uuid": f"GPU-{node}-{index}"}
            signals.put("gpuminutes_gpu_up", at_ms, 1.0, **labels)
            signals.put("gpuminutes_gpu_tensor_active_ratio", at_ms, 0.4, **labels)
            # n3 and n4 run at the pace of the first GPU of n2, which is no straggler among them.
            slow = node in ("n3", "n4") or (index == 0 and (node == "n2" or step >= 20))
            signals.put("gpuminutes_gpu_engine_active_ratio", at_ms, 0.7 if slow else 0.99, **labels)
            job = _holder(node, step)
            if job:
                signals.put("gpuminutes_gpu_workload_info", at_ms, 1.0, job_id=job, kind="slurm", **labels)
    folder = tmp_path_factory.mktemp("slow")
    with prometheus(folder, signals) as address, PrometheusClient(address, 60) as client:
        yield client


def _holder(node: str, step: int) -> str:
    if step >= 240:
        return "9" if node == "n1" and step >= 300 else ""
    return "7" if node == "n1" or (node == "n2" and step >= 100) else "8"


def _stragglers(client: PrometheusClient, first: int, last: int) -> list[tuple[str | None, SlotRanges, float]]:
    """Gives job, slots and onset, in steps, of what is told of a window of steps."""
    window = Window(AT + first * STEP_MS, AT + last * STEP_MS)
    seen = observe(window, client, Fleet(NODES, gpus=4), [], Settings(), only={"straggler_late_launch"})
    assert seen.findings == []
    return [(item.job, item.slots, (item.start_ms - AT) / STEP_MS) for item in seen.evidence]


def test_of_jobs_on_a_narrowed_node_only_the_suspected_one_is_hit(slow_jobs: PrometheusClient) -> None:
    """Of job 8, n2 alone is asked, where its usual first GPU looks slow: it must not be told."""
    assert _stragglers(slow_jobs, 0, 180) == [("7", ((0, 4),), pytest.approx(20, abs=2))]


def test_a_job_that_is_slow_since_it_began_is_placed(slow_jobs: PrometheusClient) -> None:
    """A mean over a range dates its onset half of that range early, when nobody held the GPUs."""
    assert _stragglers(slow_jobs, 300, 420) == [("9", ((0, 4),), pytest.approx(300, abs=2))]
