"""Who holds a GPU by another exporter's labels, and which series are narrowed to some nodes: on a real Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from exporter.metrics import GPU_WORKLOAD_INFO
from tests.detect.server import Signals, prometheus
from warehouse.causes import load_causes
from warehouse.causes.examples import dcgm
from warehouse.detect.render import Form, Only, forms
from warehouse.detect.site import LABELS, Site
from warehouse.evidence.prometheus import PrometheusClient
from warehouse.model.time import parse_instant
from warehouse.signals import load_dialects
from warehouse.signals.rewrite import Use, parse_matchers, rewrite

AT = parse_instant("2026-03-02T10:00:00Z")
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
