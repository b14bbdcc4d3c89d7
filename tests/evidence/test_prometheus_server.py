"""The client against real servers: grids, pieces that are joined, raw samples at their true times."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from tests.evidence.conftest import SCRAPE_MS, START_MS
from warehouse.evidence.prometheus import Failure, PrometheusClient, PrometheusError
from warehouse.model.time import MS_PER_DAY, MS_PER_HOUR, Window


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


def test_raw_samples_show_the_hole_that_a_range_query_paints_over(client: PrometheusClient, any_kind: str) -> None:
    """Prometheus carries a sample forward for five minutes, VictoriaMetrics for little more than a scrape."""
    around = Window(START_MS + 95 * SCRAPE_MS, START_MS + 115 * SCRAPE_MS)
    (series,) = client.samples("broken", around)
    assert series.labels["node"] == 'b"\\'
    assert max(right - left for (left, _), (right, _) in pairwise(series.points)) == 11 * SCRAPE_MS
    painted = len(client.query_range("broken", around, SCRAPE_MS)[0].points)
    assert painted == {"prometheus": 20, "victoria": 10}[any_kind]


def test_nan_is_a_sample_where_the_server_stores_one(client: PrometheusClient, any_kind: str) -> None:
    """VictoriaMetrics drops every NaN but the stale marker when it takes samples in."""
    (series,) = client.samples("odd", Window(START_MS, START_MS + MS_PER_HOUR))
    values = [value for _, value in series.points]
    assert len(values) == {"prometheus": 3, "victoria": 2}[any_kind]
    assert any(math.isnan(value) for value in values) == (any_kind == "prometheus")


def test_names_in_a_window_are_all_there_and_none_of_another_month(client: PrometheusClient) -> None:
    inside = Window(START_MS, START_MS + 8 * MS_PER_HOUR)
    assert client.names(inside) >= {"steady", "broken", "odd"}
    assert client.names(inside, ['{node="a"}']) == {"steady"}
    assert client.names(inside, ['{node="a"}', "odd"]) == {"steady", "odd"}
    assert client.names(inside, ['{node="nobody"}']) == frozenset()
    other = Window(START_MS + 60 * MS_PER_DAY, START_MS + 61 * MS_PER_DAY)
    assert client.names(other) & {"steady", "broken", "odd"} == frozenset()


def test_a_real_server_is_ready_and_refuses_in_one_line(client: PrometheusClient, any_kind: str) -> None:
    client.ready()
    wrong = {"prometheus": r"\(bad_data\): .*parse error", "victoria": r"\(422\): error when executing"}[any_kind]
    with pytest.raises(PrometheusError, match="refused the query " + wrong) as caught:
        client.query("up ==")
    assert (caught.value.kind, caught.value.too_big) == (Failure.REFUSED, False)
    failing = {"prometheus": r"\(execution\)", "victoria": r"\(422\)"}[any_kind]
    with pytest.raises(PrometheusError, match="refused the query " + failing):
        client.query('label_replace(steady, "x", "y", "z", "(")')


def test_a_selector_that_is_wrong_is_refused_for_names_too(client: PrometheusClient) -> None:
    with pytest.raises(PrometheusError) as caught:
        client.names(Window(START_MS, START_MS + MS_PER_HOUR), ["{node="])
    assert caught.value.kind is Failure.REFUSED
