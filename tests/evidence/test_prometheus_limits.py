"""What a real server finds too large is asked in smaller pieces; what it refuses otherwise is refused at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.detect.server import Signals, prometheus, victoria
from tests.evidence.conftest import SCRAPE_MS, START_MS
from warehouse.evidence.prometheus import Failure, PrometheusClient, PrometheusError
from warehouse.model.time import MS_PER_HOUR, MS_PER_SECOND, Window

EIGHT_HOURS = Window(START_MS, START_MS + 8 * MS_PER_HOUR)

# Prometheus counts the samples that it holds at a time, VictoriaMetrics all those of the blocks that it opens, each
# of up to 8,192: a limit below one block no time would be short enough for.
LIMITED = {
    "prometheus": (prometheus, ["--query.max-samples=500"]),
    "victoria": (victoria, ["-search.maxSamplesPerQuery=20000"]),
}


@pytest.fixture(scope="module", params=sorted(LIMITED))
def limited(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Gives the address of each kind of server with a limit that hours of one series, a sample a second, break."""
    serve, options = LIMITED[request.param]
    signals = Signals()
    for at_ms in range(EIGHT_HOURS.start_ms, EIGHT_HOURS.end_ms, MS_PER_SECOND):
        signals.put("dense", at_ms, float(at_ms // MS_PER_SECOND % 1_000))
    with serve(tmp_path_factory.mktemp("limited"), signals, *options) as address:
        yield address


def test_a_range_that_is_too_large_comes_in_pieces_and_whole(limited: str) -> None:
    with PrometheusClient(limited, timeout_s=30) as client:
        (series,) = client.query_range("dense", EIGHT_HOURS, SCRAPE_MS, max_steps=10_000)
        traffic = client.traffic()
    steps = range(EIGHT_HOURS.start_ms, EIGHT_HOURS.end_ms, SCRAPE_MS)
    assert series.points == tuple((at_ms, at_ms // MS_PER_SECOND % 1_000) for at_ms in steps)
    # Once halved it stays so: no further piece was refused for its size.
    assert 1 <= traffic.splits == traffic.failures[Failure.REFUSED] <= 2
    assert traffic.requests <= traffic.splits + 2**traffic.splits and traffic.retries == 0


def test_a_raw_read_that_is_too_large_comes_in_pieces_and_whole(limited: str) -> None:
    with PrometheusClient(limited, timeout_s=30) as client:
        (series,) = client.samples("dense", EIGHT_HOURS)
        traffic = client.traffic()
    seconds = range(EIGHT_HOURS.start_ms, EIGHT_HOURS.end_ms, MS_PER_SECOND)
    assert series.points == tuple((at_ms, at_ms // MS_PER_SECOND % 1_000) for at_ms in seconds)
    assert 1 <= traffic.splits == traffic.failures[Failure.REFUSED] <= 6


def test_what_is_too_large_in_one_step_is_refused_in_the_end(limited: str) -> None:
    with PrometheusClient(limited, timeout_s=30) as client, pytest.raises(PrometheusError) as caught:
        client.query_range("max_over_time(dense[6h])", Window(START_MS + 6 * MS_PER_HOUR, EIGHT_HOURS.end_ms), 60_000)
    assert caught.value.too_big and caught.value.kind is Failure.REFUSED
    # 120 steps, halved until one is left, and that is final.
    assert client.traffic().splits == 6 and client.traffic().requests == 7


def test_more_points_than_a_server_gives_are_asked_in_pieces(client: PrometheusClient) -> None:
    """11,000 in Prometheus, 30,000 in VictoriaMetrics; both are met when nobody limits the steps."""
    before = client.traffic()
    hours = Window(START_MS + MS_PER_HOUR, START_MS + 10 * MS_PER_HOUR)
    (series,) = client.query_range("vector(7)", hours, MS_PER_SECOND, max_steps=100_000)
    assert [at_ms for at_ms, _ in series.points] == list(range(hours.start_ms, hours.end_ms, MS_PER_SECOND))
    assert client.traffic().splits - before.splits in (1, 2)


def test_a_wrong_query_is_not_cut_into_pieces(client: PrometheusClient) -> None:
    before = client.traffic()
    with pytest.raises(PrometheusError) as caught:
        client.query_range("up ==", EIGHT_HOURS, SCRAPE_MS)
    after = client.traffic()
    assert caught.value.kind is Failure.REFUSED and not caught.value.too_big
    assert (after.requests - before.requests, after.splits - before.splits, after.retries) == (1, 0, 0)
