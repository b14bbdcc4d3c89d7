"""One server of each kind for all cases: each case has a day of its own, so that none sees another's series."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.detect.cases import all_signals
from tests.detect.server import SERVERS, Server
from warehouse.evidence.prometheus import PrometheusClient


@pytest.fixture(scope="session", params=sorted(SERVERS))
def any_server(request: pytest.FixtureRequest) -> Server:
    """Gives each kind of server in turn, to be filled and started."""
    return SERVERS[request.param]


@pytest.fixture(scope="session")
def any_prometheus(any_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Gives the address of each kind of server in turn; it knows every case."""
    with any_server(tmp_path_factory.mktemp("signals"), all_signals()) as address:
        yield address


@pytest.fixture(scope="session")
def client(any_prometheus: str) -> Iterator[PrometheusClient]:
    """Gives a client of each kind of server in turn."""
    with PrometheusClient(any_prometheus, timeout_s=30) as found:
        yield found
