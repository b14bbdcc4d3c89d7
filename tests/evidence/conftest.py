"""One server of each kind with eight hours of a few series."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from tests.detect.server import SERVERS, Signals
from warehouse.evidence.prometheus import PrometheusClient
from warehouse.model.time import MS_PER_HOUR, parse_instant

START_MS = parse_instant("2026-02-01T00:00:00Z")
SCRAPE_MS = 15_000
TICKS = 8 * MS_PER_HOUR // SCRAPE_MS


def eight_hours() -> Signals:
    """Gives one whole series, one with a hole of eleven scrapes, and one with a NaN."""
    signals = Signals()
    for tick in range(TICKS):
        at_ms = START_MS + tick * SCRAPE_MS + 123
        signals.put("steady", at_ms, float(tick), node="a")
        if not 100 <= tick < 110:
            signals.put("broken", at_ms, 1.0, node='b"\\')
        if tick < 3:
            signals.put("odd", at_ms, math.nan if tick == 1 else 1.0)
    return signals


@pytest.fixture(scope="session", params=sorted(SERVERS))
def any_kind(request: pytest.FixtureRequest) -> str:
    """Gives the name of each kind of server in turn."""
    return str(request.param)


@pytest.fixture(scope="session")
def any_prometheus(any_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Gives the address of each kind of server in turn; it knows the eight hours."""
    with SERVERS[any_kind](tmp_path_factory.mktemp("signals"), eight_hours()) as address:
        yield address


@pytest.fixture(scope="session")
def client(any_prometheus: str) -> Iterator[PrometheusClient]:
    """Gives a client of each kind of server in turn."""
    with PrometheusClient(any_prometheus, timeout_s=30) as found:
        yield found


@pytest.fixture(scope="session")
def prometheus_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Gives the address of a Prometheus that knows the eight hours."""
    with SERVERS["prometheus"](tmp_path_factory.mktemp("prometheus"), eight_hours()) as address:
        yield address
