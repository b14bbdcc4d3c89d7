"""What is pushed by hand arrives bit by bit, on every server: times, values, ends of series."""

from __future__ import annotations

import math
from collections.abc import Iterator

import httpx
import pytest

from tests.detect.remote_write import STALE, encode, in_slices, is_stale, send
from tests.detect.server import Server, Signals
from warehouse.evidence.prometheus import PrometheusClient
from warehouse.model.time import MS_PER_DAY, MS_PER_HOUR, MS_PER_MINUTE, Window, parse_instant

START_MS = parse_instant("2026-02-01T00:00:00Z")
ODD = 'quote " slash \\ line \n end é'


def test_only_the_marker_is_a_marker() -> None:
    assert math.isnan(STALE) and is_stale(STALE)
    assert not is_stale(math.nan) and not is_stale(1.0)


def test_slices_are_in_order_of_time_and_lose_nothing() -> None:
    early = [(0, 1.0), (90, 2.0), (100, 3.0)]
    late = [(50, 4.0), (310, 5.0)]
    slices = list(in_slices([({"__name__": "a"}, early), ({"__name__": "b"}, late)], 100))
    assert slices == [
        [({"__name__": "a"}, early[:2]), ({"__name__": "b"}, late[:1])],
        [({"__name__": "a"}, early[2:])],
        [({"__name__": "b"}, late[1:])],
    ]


@pytest.fixture(scope="module")
def marked(any_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusClient]:
    """A client of each server that got two days of a series which ends for three hours, by remote write."""
    signals = Signals()
    for tick in range(48 * 60):
        at_ms = START_MS + tick * MS_PER_MINUTE + 789
        if not 600 <= tick < 780:
            signals.put("ends", at_ms, tick + 0.125, odd=ODD)
        if tick == 600:
            signals.end("ends", at_ms, odd=ODD)
    assert signals.marked
    with (
        any_server(tmp_path_factory.mktemp("marked"), signals) as address,
        PrometheusClient(address, timeout_s=30) as client,
    ):
        yield client


def test_every_sample_is_there_at_its_millisecond_and_the_marker_is_none(marked: PrometheusClient) -> None:
    (series,) = marked.samples("ends", Window(START_MS, START_MS + 2 * MS_PER_DAY))
    assert series.labels["odd"] == ODD
    ticks = [tick for tick in range(48 * 60) if not 600 <= tick < 780]
    assert series.points == tuple((START_MS + tick * MS_PER_MINUTE + 789, tick + 0.125) for tick in ticks)


def test_a_series_that_ended_is_not_carried_forward(marked: PrometheusClient) -> None:
    around = Window(START_MS + 9 * MS_PER_HOUR, START_MS + 11 * MS_PER_HOUR)
    (series,) = marked.query_range("ends", around, MS_PER_MINUTE)
    assert series.points[-1] == (START_MS + 600 * MS_PER_MINUTE, 599.125)
    assert marked.query("ends", START_MS + 601 * MS_PER_MINUTE) == []


def test_a_refused_push_says_why(any_prometheus: str) -> None:
    body = encode([({"__name__": "x"}, [(0, 1.0)])])
    assert httpx.post(any_prometheus, content=body, trust_env=False).status_code >= 400
    with pytest.raises(AssertionError, match="/nowhere answered 4"):
        send(f"{any_prometheus}/nowhere", [({"__name__": "x"}, [(START_MS, 1.0)])])
