"""Each detector through `observe` against a real Prometheus: what comes out, and that cuts do not matter."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from tests.detect import cases
from tests.detect.cases import at
from tests.detect.fleet import Fleet
from warehouse.detect.observe import observe
from warehouse.detect.words import Observation, Settings
from warehouse.evidence.prometheus import PrometheusClient
from warehouse.model.evidence import Evidence
from warehouse.model.time import Window, format_instant

SETTINGS = Settings()


def told(evidence: Evidence) -> tuple[str, str, str | None, str, str | None]:
    """Gives what a reader looks at: scope, state, cause, and the span on the clock."""
    end = None if evidence.end_ms is None else format_instant(evidence.end_ms)[11:-1]
    start = format_instant(evidence.start_ms)[11:-1]
    return evidence.scope, str(evidence.state), evidence.cause, start, end


def look(client: PrometheusClient, window: Window, fleet: Fleet) -> Observation:
    """Observes one window without any history."""
    return observe(window, client, fleet, [], SETTINGS)


def look_in_pieces(client: PrometheusClient, window: Window, fleet: Fleet, cuts: list[int]) -> list[Evidence]:
    """Observes a window piece by piece, keeping evidence by its key as a store does."""
    store: dict[str, Evidence] = {}
    edges = [window.start_ms, *sorted(set(cuts)), window.end_ms]
    for start_ms, end_ms in pairwise(edges):
        reaching = [item for item in store.values() if item.end_ms is None or item.end_ms > start_ms]
        seen = observe(Window(start_ms, end_ms), client, fleet, reaching, SETTINGS)
        store.update({item.key: item for item in seen.evidence})
    return sorted(store.values(), key=lambda item: (item.start_ms, item.key))


def test_a_dead_node_is_down_and_a_dead_exporter_is_not(client: PrometheusClient) -> None:
    """Both edges are samples; the second witness, 4 s later, is the one that proves the outage."""
    seen = look(client, cases.NODES, cases.NODES_FLEET)
    assert [told(item) for item in seen.evidence] == [
        ("n1", "down", "host/node_unreachable", "10:20:07", "10:24:03"),
        ("n3", "unknown", "platform/monitoring_gap", "10:30:01", "10:35:01"),
        ("n2", "unknown", "platform/monitoring_gap", "10:40:07", "10:43:07"),
    ]
    assert seen.findings == []
    outage = seen.evidence[0]
    assert outage.key == "det:node_unreachable@1:n1:2026-03-02T10:20:07Z"
    assert (outage.source, outage.slots, outage.basis) == ("detector", ((0, 8),), "measured")


def test_a_lost_gpu_is_down_while_seven_report(client: PrometheusClient) -> None:
    """One slot is down; no answer is unknown; what has no certain place is found and never guessed."""
    seen = look(client, cases.GPUS, cases.GPUS_FLEET)
    assert [told(item) for item in seen.evidence] == [
        ("g1/5", "down", "accelerator/gpu_off_bus", "10:20:05", "10:31:05"),
        ("g1/2", "unknown", "platform/monitoring_gap", "10:40:05", "10:44:05"),
    ]
    assert seen.evidence[0].slots == ((5, 6),)
    assert seen.evidence[0].detail == "GPU-g1-5 at 0000:6f:00"
    assert [(found.where, found.message) for found in seen.findings] == [
        ("10.0.0.9:9400", "a scrape target of the exporter has no label node"),
        ("__name__=up,instance=10.0.0.9:9400,job=gpu-minutes", "a hit of exporter_silent has no label node"),
        ("g2", "the exporter names 7 GPUs, the fleet has 8 slots: no GPU of it can be placed"),
        ("g9", "not a node of the fleet"),
    ]


def test_a_hang_is_back_dated_over_all_slots_of_the_job(client: PrometheusClient) -> None:
    """The range functions see it two minutes late; the evidence begins on the first step after the truth."""
    seen = look(client, cases.HANG, cases.HANG_FLEET)
    assert [told(item) for item in seen.evidence] == [
        ("h1+h2", "hung", "symptom/collective_timeout", "10:20:15", "10:32:15"),
    ]
    hang = seen.evidence[0]
    assert (hang.slots, hang.job, hang.basis) == (((0, 4),), "4711", "inferred")
    assert hang.key == "det:job_hang@1:job:4711:2026-03-06T10:20:15Z"


def test_a_stopped_prometheus_is_unknown_over_exactly_the_hole(client: PrometheusClient) -> None:
    """A range query would have painted over it; the outage on both sides is not stretched across."""
    seen = look(client, cases.GAP, cases.GAP_FLEET)
    assert [told(item) for item in seen.evidence] == [
        ("p3", "down", "host/node_unreachable", "10:15:12", "10:20:08"),
        ("p1+p2", "unknown", "platform/monitoring_gap", "10:20:03", "10:21:33"),
        ("p3", "unknown", "platform/monitoring_gap", "10:20:08", "10:21:38"),
        ("p3", "down", "host/node_unreachable", "10:21:38", "10:25:08"),
        ("p4+p5", "unknown", "platform/monitoring_gap", "10:39:48", "10:45:03"),
        ("p5", "unknown", "platform/monitoring_gap", "10:45:03", "10:50:03"),
        ("p6", "unknown", "platform/monitoring_gap", "10:51:48", None),
    ]
    assert seen.evidence[1].slots == ((0, 4),)


def test_what_lasts_to_the_end_of_the_window_is_open(client: PrometheusClient) -> None:
    """Long enough is told without an end; one scrape long waits for the next window."""
    young = Window(cases.NODES.start_ms, at("02T10:20:20"))
    assert look(client, young, cases.NODES_FLEET).evidence == []
    older = Window(cases.NODES.start_ms, at("02T10:22:00"))
    assert [told(item)[3:] for item in look(client, older, cases.NODES_FLEET).evidence] == [("10:20:07", None)]


def test_an_onset_before_the_window_is_looked_up(client: PrometheusClient) -> None:
    """Without any history, an outage of hours is dated where it began and not where the window does."""
    window = Window(at("10T12:00:00"), at("10T13:00:00"))
    assert [told(item)[3:] for item in look(client, window, cases.LONG_FLEET).evidence] == [("07:30:07", None)]


@pytest.mark.parametrize(
    ("window", "fleet"),
    [
        (cases.NODES, cases.NODES_FLEET),
        (cases.GPUS, cases.GPUS_FLEET),
        (cases.HANG, cases.HANG_FLEET),
        (cases.GAP, cases.GAP_FLEET),
    ],
    ids=["nodes", "gpus", "hang", "gap"],
)
def test_any_cut_into_windows_gives_the_same_evidence(client: PrometheusClient, window: Window, fleet: Fleet) -> None:
    """Cuts on, just before and just after every edge, then at random, also twice over the same pieces."""
    whole = look(client, window, fleet)
    assert look(client, window, fleet) == whole
    edges = {edge for item in whole.evidence for edge in (item.start_ms, item.end_ms) if edge is not None}
    near = [[edge + shift] for edge in sorted(edges) for shift in (-1, 0, 1, 20_000)]
    chance = random.Random(7)
    drawn = [chance.sample(range(window.start_ms + 1, window.end_ms), 3) for _ in range(6)]
    for cuts in near + drawn:
        assert look_in_pieces(client, window, fleet, cuts) == whole.evidence, cuts


def test_evaluating_an_old_window_again_opens_nothing(client: PrometheusClient) -> None:
    """The end that a later window saw stands."""
    whole = look(client, cases.NODES, cases.NODES_FLEET).evidence
    old = Window(cases.NODES.start_ms, at("02T10:22:00"))
    again = observe(old, client, cases.NODES_FLEET, whole, SETTINGS)
    assert again.evidence == whole[:1]
