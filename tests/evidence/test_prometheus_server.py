"""The client against a real Prometheus: grids, pieces that are joined, raw samples at their true times."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from tests.detect.server import Signals, prometheus
from warehouse.evidence.prometheus import PrometheusClient, PrometheusError
from warehouse.model.time import MS_PER_HOUR, Window, parse_instant

START_MS = parse_instant("2026-02-01T00:00:00Z")
SCRAPE_MS = 15_000


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusClient]:
    """Gives a client of a server with eight hours of two series, one of them with a hole and a NaN."""
    signals = Signals()
    for tick in range(8 * MS_PER_HOUR // SCRAPE_MS):
        at_ms = START_MS + tick * SCRAPE_MS + 123
        signals.put("steady", at_ms, float(tick), node="a")
        if not 100 <= tick < 110:
            signals.put("broken", at_ms, math.nan if tick == 99 else 1.0, node='b"\\')
    with (
        prometheus(tmp_path_factory.mktemp("prometheus"), signals) as address,
        PrometheusClient(address, timeout_s=30) as found,
    ):
        yield found


def test_a_long_range_in_pieces_is_the_same_as_in_one(client: PrometheusClient) -> None:
    window = Window(START_MS + 7_001, START_MS + 8 * MS_PER_HOUR)
    whole = client.query_range("steady", window, SCRAPE_MS, max_steps=10_000)
    assert client.query_range("steady", window, SCRAPE_MS) == whole
    assert client.query_range("steady", window, SCRAPE_MS, max_steps=7) == whole
    times = [at_ms for at_ms, _ in whole[0].points]
    assert times == list(range(START_MS + SCRAPE_MS, window.end_ms, SCRAPE_MS))


def test_two_windows_ask_for_the_instants_that_one_would(client: PrometheusClient) -> None:
    middle, end = START_MS + 1_000_001, START_MS + 2_000_000
    left = client.query_range("steady", Window(START_MS, middle), SCRAPE_MS)[0]
    right = client.query_range("steady", Window(middle, end), SCRAPE_MS)[0]
    assert left.points + right.points == client.query_range("steady", Window(START_MS, end), SCRAPE_MS)[0].points


def test_a_window_without_a_step_or_a_series_is_empty(client: PrometheusClient) -> None:
    assert client.query_range("steady", Window(START_MS + 1, START_MS + 100), SCRAPE_MS) == []
    assert client.samples("nothing_of_this_name", Window(START_MS, START_MS + MS_PER_HOUR)) == []


def test_raw_samples_have_true_times_and_half_open_edges(client: PrometheusClient) -> None:
    first, last = START_MS + 123, START_MS + 123 + 2 * SCRAPE_MS
    assert client.samples("steady", Window(first, last))[0].points == ((first, 0.0), (first + SCRAPE_MS, 1.0))
    assert client.samples("steady", Window(first, last + 1))[0].points[-1] == (last, 2.0)
    everything = client.samples("steady", Window(START_MS, START_MS + 8 * MS_PER_HOUR))[0]
    assert [value for _, value in everything.points] == [float(tick) for tick in range(8 * 240)]


def test_raw_samples_show_the_hole_that_a_range_query_paints_over(client: PrometheusClient) -> None:
    around = Window(START_MS + 95 * SCRAPE_MS, START_MS + 115 * SCRAPE_MS)
    (series,) = client.samples("broken", around)
    assert series.labels["node"] == 'b"\\'
    gaps = [right[0] - left[0] for left, right in zip(series.points, series.points[1:], strict=False)]
    assert max(gaps) == 11 * SCRAPE_MS
    assert any(math.isnan(value) for _, value in series.points)
    assert len(client.query_range("broken", around, SCRAPE_MS)[0].points) == 20


def test_a_real_server_is_ready_and_refuses_in_one_line(client: PrometheusClient) -> None:
    client.ready()
    with pytest.raises(PrometheusError, match=r"refused the query \(bad_data\): .*parse error"):
        client.query("up ==")
    with pytest.raises(PrometheusError, match=r"refused the query \(execution\)"):
        client.query('label_replace(steady, "x", "y", "z", "(")')
