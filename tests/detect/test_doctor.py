"""Blind detectors are named, and a server that is down is one clear line."""

from __future__ import annotations

import pytest

from tests.detect import cases
from tests.detect.cases import at
from tests.detect.server import free_port
from warehouse.causes import load_causes
from warehouse.detect.doctor import blind_detectors, selectors
from warehouse.detect.observe import observe
from warehouse.detect.plans import PLANS
from warehouse.detect.words import Settings
from warehouse.evidence.prometheus import PrometheusClient, PrometheusError


def test_selectors_keep_equalities_and_drop_what_comes_and_goes() -> None:
    expr = 'up{job="node"} == 0 and on (node) gpuminutes_x{kind="a",job_id!="",reason=~"b|c"} > 0 or up'
    assert selectors(expr) == ['gpuminutes_x{kind="a"}', "up", 'up{job="node"}']


def test_with_everything_scraped_nothing_is_blind(client: PrometheusClient) -> None:
    assert blind_detectors(client, at("06T10:59:00")) == []


def test_missing_families_are_named_with_the_cause_that_needs_them(client: PrometheusClient) -> None:
    """Without a job nothing hangs; without anything, all eyes are closed."""
    assert {code for code, _ in blind_detectors(client, at("02T10:59:00"))} == {"symptom/collective_timeout"}
    nothing = blind_detectors(client, at("20T00:00:00"))
    assert ("host/node_unreachable", 'up{job="node"}') in nothing
    assert {code for code, _ in nothing} == {code for code, cause in load_causes().items() if cause.detectors}


def test_every_plan_belongs_to_a_detector() -> None:
    assert PLANS.keys() == {found.key for cause in load_causes().values() for found in cause.detectors}


def test_observing_without_a_server_is_one_clear_line() -> None:
    address = f"http://127.0.0.1:{free_port()}"
    with PrometheusClient(address, 1) as client, pytest.raises(PrometheusError) as caught:
        observe(cases.NODES, client, cases.NODES_FLEET, [], Settings())
    assert str(caught.value) == f"{address} cannot be reached: [Errno 111] Connection refused"
