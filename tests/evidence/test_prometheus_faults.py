"""A real Prometheus behind a proxy that spoils its answers: the kind of each, what is asked again, what is counted."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.detect.server import free_port
from tests.evidence import proxy as faults
from tests.evidence.conftest import SCRAPE_MS, START_MS
from tests.evidence.proxy import Fault, Proxy, proxy
from warehouse.evidence.access import Access
from warehouse.evidence.prometheus import Failure, PrometheusClient, PrometheusError
from warehouse.evidence.transport import Patience
from warehouse.model.time import MS_PER_HOUR, Window

HOUR = Window(START_MS, START_MS + MS_PER_HOUR)
TIMEOUT_S = 0.4
QUICK = Patience(tries=3, first_s=0.02, total_s=10)

# What each does to a question, and whether it is asked again: 3 tries or one.
FAULTS: dict[str, tuple[Fault, Failure, int, str]] = {
    "down": (faults.down, Failure.UNREACHABLE, 3, "cannot be reached"),
    "slow": (faults.slow, Failure.TIMEOUT, 3, "gave no answer within 0.4 s"),
    "endless": (faults.endless, Failure.TIMEOUT, 3, "gave no answer within 0.4 s"),
    "502": (faults.busy(502), Failure.UNREACHABLE, 3, "answered HTTP 502 without JSON: upstream connect error"),
    "503": (faults.busy(503), Failure.UNREACHABLE, 3, "answered HTTP 503 without JSON"),
    "504": (faults.busy(504), Failure.TIMEOUT, 3, "answered HTTP 504 without JSON"),
    "429": (faults.busy(429), Failure.REFUSED, 3, "answered HTTP 429 without JSON"),
    "500": (faults.busy(500), Failure.UNREACHABLE, 1, "answered HTTP 500 without JSON"),
    "401": (faults.busy(401), Failure.REFUSED, 1, "answered HTTP 401 without JSON"),
    "html": (faults.html, Failure.MALFORMED, 1, "HTTP 200 without JSON: <html><body>Please log in"),
    "broken off": (faults.broken_off, Failure.UNREACHABLE, 3, "cannot be reached: peer closed connection"),
    "half": (faults.half, Failure.MALFORMED, 1, "HTTP 200 without JSON"),
    "not packed": (faults.not_packed, Failure.MALFORMED, 1, "cannot be unpacked"),
    "warnings": (faults.saying(warnings=["store b: away"]), Failure.PARTIAL, 1, "a partial answer: store b: away"),
    "isPartial": (faults.saying(isPartial=True), Failure.PARTIAL, 1, "partial answer"),
    "query timeout": (
        faults.refusing(503, "timeout", "query timed out in expression evaluation"),
        Failure.TIMEOUT,
        3,
        "refused the query (timeout)",
    ),
    "VictoriaMetrics timeout": (
        faults.refusing(422, "422", "timeout exceeded during query execution: 30.000 seconds"),
        Failure.TIMEOUT,
        1,
        "timeout exceeded",
    ),
    "no rights": (faults.refusing(403, "forbidden", "no such tenant"), Failure.REFUSED, 1, "no such tenant"),
}


@pytest.fixture
def before(prometheus_address: str) -> Iterator[Proxy]:
    """Gives a proxy before a Prometheus that knows eight hours."""
    with proxy(prometheus_address) as found:
        yield found


@pytest.fixture
def spoiled(before: Proxy) -> Iterator[PrometheusClient]:
    """Gives a client of the proxy."""
    with PrometheusClient(before.address, TIMEOUT_S, patience=QUICK) as client:
        yield client


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_has_its_kind_and_is_asked_again_where_that_may_help(
    name: str, before: Proxy, spoiled: PrometheusClient
) -> None:
    fault, kind, requests, message = FAULTS[name]
    before.always = fault
    with pytest.raises(PrometheusError) as caught:
        spoiled.query("steady", HOUR.end_ms)
    assert caught.value.kind is kind and message in str(caught.value)
    assert str(caught.value).startswith(before.address) and "\n" not in str(caught.value)
    traffic = spoiled.traffic()
    assert (len(before.seen), traffic.requests, traffic.retries) == (requests, requests, requests - 1)
    assert {kind: count for kind, count in traffic.failures.items() if count} == {kind: requests}
    assert traffic.splits == 0 and traffic.spent_s > 0


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_passes_is_made_good_or_told_and_never_half_believed(
    name: str, before: Proxy, spoiled: PrometheusClient
) -> None:
    fault, kind, requests, _ = FAULTS[name]
    whole = spoiled.query("steady", HOUR.end_ms)
    before.faults = [fault]
    if requests == 1:
        with pytest.raises(PrometheusError):
            spoiled.query("steady", HOUR.end_ms)
    else:
        assert spoiled.query("steady", HOUR.end_ms) == whole
    assert spoiled.query("steady", HOUR.end_ms) == whole
    traffic = spoiled.traffic()
    answered = 2 if requests == 1 else 3
    assert traffic.failures[kind] == 1 and traffic.requests == answered + sum(traffic.failures.values())


def test_notes_on_a_query_are_no_warnings(before: Proxy, spoiled: PrometheusClient) -> None:
    before.always = faults.saying(infos=["PromQL info: metric might not be a counter"], isPartial=False, warnings=[])
    assert len(spoiled.query("steady", HOUR.end_ms)) == 1


def test_a_piece_that_is_too_slow_is_halved_twice_and_then_asked_again(
    before: Proxy, spoiled: PrometheusClient
) -> None:
    whole = spoiled.query_range("steady", HOUR, SCRAPE_MS)
    before.faults = [faults.slow, faults.slow]
    assert spoiled.query_range("steady", HOUR, SCRAPE_MS) == whole
    traffic = spoiled.traffic()
    # 240 steps: whole, 240 and 120 in vain, then four pieces of 60.
    assert (traffic.splits, traffic.retries, traffic.requests) == (2, 0, 1 + 2 + 4)
    before.always = faults.slow
    with pytest.raises(PrometheusError) as caught:
        spoiled.query_range("steady", HOUR, SCRAPE_MS)
    assert caught.value.kind is Failure.TIMEOUT
    assert (spoiled.traffic().splits, spoiled.traffic().retries) == (4, QUICK.tries - 1)


@pytest.mark.parametrize(
    "text",
    [
        "the query exceeded the maximum number of chunks (limit: 2) (err-mimir-max-chunks-per-query)",
        "the total query time range exceeds the limit (err-mimir-max-total-query-length)",
        "the query time range exceeds the limit (query length: 800h, limit: 721h)",
        "rpc error: code = ResourceExhausted desc = exceeded chunks limit: limit 2 violated (got 3)",
        "received message larger than max (5 vs. 4)",
        "not enough memory for processing up, which returns 9 data points across 9 time series",
    ],
)
def test_what_other_engines_find_too_large_is_halved(before: Proxy, spoiled: PrometheusClient, text: str) -> None:
    whole = spoiled.query_range("steady", HOUR, SCRAPE_MS)
    before.faults = [faults.refusing(422, "execution", text)]
    assert spoiled.query_range("steady", HOUR, SCRAPE_MS) == whole
    assert (spoiled.traffic().splits, spoiled.traffic().retries, spoiled.traffic().requests) == (1, 0, 4)


def test_the_pause_that_a_server_asks_for_is_kept_or_it_is_not_asked_again(
    before: Proxy, spoiled: PrometheusClient
) -> None:
    before.faults = [faults.busy(429, "1")]
    began_s = time.monotonic()
    spoiled.ready()
    assert 1.0 <= time.monotonic() - began_s < 3.0
    before.faults = [faults.busy(503, "3600")]
    with pytest.raises(PrometheusError, match="HTTP 503"):
        spoiled.ready()
    assert spoiled.traffic().retries == 1


def test_pauses_double_and_are_bounded_in_number_and_time() -> None:
    address = f"http://127.0.0.1:{free_port()}"
    spent_s = []
    for patience in (Patience(4, 0.1, 60), Patience(40, 0.1, 0.5)):
        with PrometheusClient(address, 1, patience=patience) as client, pytest.raises(PrometheusError) as caught:
            client.ready()
        assert caught.value.kind is Failure.UNREACHABLE
        spent_s.append(client.traffic().spent_s)
        assert client.traffic().failures[Failure.UNREACHABLE] == client.traffic().requests
        assert 2 <= client.traffic().requests <= 4
    # 0.1 + 0.2 + 0.4, each between its half and the whole.
    assert 0.35 <= spent_s[0] < 1.5 and spent_s[1] < 1.0


def test_credentials_that_are_gone_are_a_refusal_that_a_later_look_may_not_have(
    before: Proxy, tmp_path_factory: pytest.TempPathFactory
) -> None:
    token = tmp_path_factory.mktemp("token") / "token"
    token.write_text("first\n")
    with PrometheusClient(before.address, 5, Access(token)) as client:
        client.ready()
        token.unlink()
        with pytest.raises(PrometheusError, match="token: cannot be read: No such file or directory") as caught:
            client.ready()
        assert caught.value.kind is Failure.REFUSED
        token.write_text("second")
        client.ready()
    assert [headers["authorization"] for _, headers in before.seen] == ["Bearer first", "Bearer second"]
