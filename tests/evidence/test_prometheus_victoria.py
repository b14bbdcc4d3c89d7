"""What VictoriaMetrics does differently near the present, and that no answer of the client shows it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.detect.remote_write import STALE, send
from tests.detect.server import SERVERS, Signals, victoria
from warehouse.evidence.prometheus import NEAR_MS, PrometheusClient
from warehouse.model.time import MS_PER_DAY, MS_PER_HOUR, MS_PER_SECOND, Window

STEP_MS = 5 * MS_PER_SECOND


def now_ms() -> int:
    """Gives the present, of which the servers of these tests have the same."""
    return time.time_ns() // 1_000_000


@pytest.fixture(scope="module", params=sorted(SERVERS))
def fresh(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """Gives the address of a server with a sample each second up to the present, and the time of the last one."""
    signals = Signals()
    last_ms = now_ms()
    for at_ms in range(last_ms - 120 * MS_PER_SECOND, last_ms + 1, MS_PER_SECOND):
        signals.put("clock", at_ms, float(at_ms // MS_PER_SECOND), node="a")
    # By remote write into both: blocks of the present would meet the head of a running Prometheus.
    signals.marked = True
    with SERVERS[request.param](tmp_path_factory.mktemp("fresh"), signals) as address:
        yield address, last_ms


def test_steps_near_the_present_are_no_copies_of_an_earlier_one(fresh: tuple[str, int]) -> None:
    """VictoriaMetrics repeats its value of 30 seconds ago over all later steps of a range."""
    address, last_ms = fresh
    window = Window(last_ms - 60 * MS_PER_SECOND, last_ms)
    with PrometheusClient(address, timeout_s=30) as client:
        (series,) = client.query_range("clock", window, STEP_MS)
    steps = range(-(-window.start_ms // STEP_MS) * STEP_MS, window.end_ms, STEP_MS)
    # At each step the newest sample is less than a second old.
    seen = [(at_ms, (at_ms - last_ms % MS_PER_SECOND) // MS_PER_SECOND) for at_ms in steps]
    assert [(at_ms, int(value)) for at_ms, value in series.points] == seen


def test_the_server_does_hold_back_unless_it_is_asked_as_the_client_does(tmp_path: Path) -> None:
    """The premise of the test above: without it that one proves nothing."""
    last_ms = now_ms()
    signals = Signals()
    for at_ms in range(last_ms - 90 * MS_PER_SECOND, last_ms + 1, MS_PER_SECOND):
        signals.put("clock", at_ms, float(at_ms))
    with victoria(tmp_path, signals) as address:
        form = {"query": "clock", "start": f"{(last_ms - 60_000) / 1000:.3f}", "end": f"{last_ms / 1000:.3f}"}
        answer = httpx.post(f"{address}/api/v1/query_range", data=form | {"step": "5", "nocache": "1"})
    values = [value for _, value in answer.json()["data"]["result"][0]["values"]]
    assert len(values) == 13 and len(set(values)) < 9 and len(set(values[-5:])) == 1


def test_the_present_costs_one_more_question_and_the_past_none(fresh: tuple[str, int]) -> None:
    address, last_ms = fresh
    with PrometheusClient(address, timeout_s=30) as client:
        past = Window(last_ms - MS_PER_DAY, last_ms - NEAR_MS - MS_PER_HOUR)
        client.query_range("clock", past, MS_PER_HOUR)
        assert client.traffic().requests == 1
        near = Window(last_ms - MS_PER_HOUR, last_ms - 2 * 60 * MS_PER_SECOND)
        client.query_range("clock", near, STEP_MS)
        client.query_range("clock", near, STEP_MS)
        assert client.traffic().requests == 4


def test_a_value_without_an_instant_is_of_the_present(fresh: tuple[str, int]) -> None:
    address, last_ms = fresh
    with PrometheusClient(address, timeout_s=30) as client:
        (series,) = client.query("clock")
        (newest,) = client.samples("clock", Window(last_ms - 3 * MS_PER_SECOND, last_ms + 1))
    # VictoriaMetrics asks at the full second before.
    assert last_ms // MS_PER_SECOND - series.points[0][1] in (0, 1)
    assert [at_ms for at_ms, _ in newest.points] == [last_ms - back * MS_PER_SECOND for back in (3, 2, 1, 0)]


def test_instants_stay_on_the_grid_of_the_epoch(tmp_path: Path) -> None:
    """Without `nocache` ranges of many points are moved to multiples of the step times a power of two."""
    start_ms = now_ms() - MS_PER_DAY
    signals = Signals()
    for tick in range(200):
        signals.put("steady", start_ms + tick * 15_000, float(tick))
    window = Window(start_ms, start_ms + MS_PER_HOUR // 2)
    with victoria(tmp_path, signals) as address, PrometheusClient(address, timeout_s=30) as client:
        (series,) = client.query_range("steady", window, 7_000)
    grid = range(-(-window.start_ms // 7_000) * 7_000, window.end_ms, 7_000)
    assert [at_ms for at_ms, _ in series.points] == list(grid)


def test_victoria_keeps_twelve_digits_and_all_of_small_whole_numbers(tmp_path: Path) -> None:
    """Numbers of one series share an exponent there; nothing that is detected needs more."""
    start_ms = now_ms() - MS_PER_DAY
    values = [0.0, 1.0, 1 / 3, 699.987654321, 2.0**53 - 1]
    with victoria(tmp_path, Signals()) as address, PrometheusClient(address, timeout_s=30) as client:
        for number, value in enumerate(values):
            send(f"{address}/api/v1/write", [({"__name__": f"x{number}"}, [(start_ms, value), (start_ms + 1, STALE)])])
        httpx.get(f"{address}/internal/force_flush").raise_for_status()
        window = Window(start_ms - 1_000, start_ms + 1_000)
        found = [client.samples(f"x{number}", window)[0].points for number in range(len(values))]
    assert [points[0][0] for points in found] == [start_ms] * len(values)
    for value, ((_, kept),) in zip(values, found, strict=True):
        assert math.isclose(kept, value, rel_tol=1e-12), value
    assert [found[index][0][1] for index in (0, 1, 4)] == [0.0, 1.0, 2.0**53 - 1]
