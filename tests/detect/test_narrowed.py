"""A look at a few nodes narrows what names its node, and nothing else."""

from __future__ import annotations

import pytest

from warehouse.causes import load_causes
from warehouse.detect.render import Only, forms
from warehouse.detect.site import Site
from warehouse.model.cause import Detector

SCRAPE_MS, SPAN_MS = 15_000, 600_000
MATCHER = 'node=~"n1"'


def detector(key: str) -> Detector:
    """Gives a detector of the catalogue."""
    return next(d for cause in load_causes().values() for d in cause.detectors if d.key == key)


def narrowed(key: str) -> str:
    """Gives our form of a detector, asked of one node."""
    return forms(detector(key), Site(), SCRAPE_MS, SPAN_MS, Only(MATCHER))[0].expr


def test_pods_have_no_node() -> None:
    expr = narrowed("pod_starting")
    assert f'gpuminutes_gpu_workload_info{{pod!="",{MATCHER}}}' in expr
    assert 'kube_pod_status_ready{condition="true"}[1801s]' in expr
    assert "kube_pod_start_time)" in expr


def test_the_spec_of_a_node_has_one() -> None:
    assert f"kube_node_spec_unschedulable{{{MATCHER}}}" in narrowed("cordoned_and_empty")


@pytest.mark.parametrize("key", ["kv_cache_full", "endpoint_queue_collapse", "canary_failing"])
def test_endpoints_have_none(key: str) -> None:
    assert MATCHER not in narrowed(key)


def test_what_a_site_pushes_is_read_as_it_is_and_no_exporter_stands_in() -> None:
    found = forms(detector("canary_failing"), Site(), SCRAPE_MS, SPAN_MS)
    assert [form.teller for form in found] == [""]
    assert found[0].names == {"gpuminutes_canary_score", "gpuminutes_canary_run_timestamp_seconds"}
