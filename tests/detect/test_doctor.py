"""Blind detectors are named, and a server that is down is one clear line."""

from __future__ import annotations

import pytest

from tests.detect import cases
from tests.detect.cases import at
from tests.detect.server import free_port
from warehouse.causes import load_causes
from warehouse.detect.doctor import lacks, sights
from warehouse.detect.observe import catalogue, observe
from warehouse.detect.site import Site
from warehouse.detect.words import Settings
from warehouse.evidence.prometheus import PrometheusClient, PrometheusError

# What the cases of these tests scrape: detectors of these keys see, all others are blind there.
SEEING = {"exporter_silent", "gpu_no_answer", "gpu_off_bus", "job_hang", "node_unreachable"}


def test_what_is_lacking_is_that_of_the_choice_nearest_to_hand() -> None:
    expr = 'up{job="node"} == 0 and on (node) gpuminutes_x{kind="a"} > 0 and on (node) rate(node_y[5m]) > 1'
    assert lacks(expr, {"gpuminutes_x"}) == ("node_y", 'up{job="node"}')
    either = "max by (node) (vllm:old > 1 or vllm:new > 1) unless on (node) node_z"
    assert lacks(either, {"vllm:new"}) == ()
    assert lacks(either, {"node_z"}) == ("vllm:new",)
    # No XID yet is no blindness, as long as they are counted at all.
    assert lacks("gpuminutes_gpu_xid_last_timestamp_seconds > 0", {"gpuminutes_gpu_xid_events_total"}) == ()


def seeing(client: PrometheusClient, at_ms: int) -> set[str]:
    """Gives the keys of the detectors that see."""
    return {sight.detector for sight in sights(client, Settings(), catalogue(Site()), at_ms) if not sight.blind}


def test_with_their_series_scraped_detectors_see(client: PrometheusClient) -> None:
    assert seeing(client, at("06T10:59:00")) >= SEEING


def test_missing_series_are_named_with_the_detector_that_needs_them(client: PrometheusClient) -> None:
    """Without a job nothing hangs; without anything, all eyes are closed."""
    assert "job_hang" not in seeing(client, at("02T10:59:00"))
    nothing = sights(client, Settings(), catalogue(Site()), at("20T00:00:00"))
    assert all(sight.blind for sight in nothing)
    own = {d.key for cause in load_causes().values() for d in cause.detectors if d.fan_in is None}
    assert {sight.detector for sight in nothing} == own
    dead = next(sight for sight in nothing if sight.detector == "node_unreachable")
    assert dead.cause == "host/node_unreachable" and all(name.startswith("up{job=") for name in dead.missing)


def test_observing_without_a_server_is_one_clear_line() -> None:
    address = f"http://127.0.0.1:{free_port()}"
    with PrometheusClient(address, 1) as client, pytest.raises(PrometheusError) as caught:
        observe(cases.NODES, client, cases.NODES_FLEET, [], Settings())
    assert str(caught.value) == f"{address} cannot be reached: [Errno 111] Connection refused"
