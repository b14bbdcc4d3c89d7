"""One server for all cases: each has a day of its own, so that no case sees another's series."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.detect.cases import all_signals
from tests.detect.server import prometheus
from warehouse.evidence.prometheus import PrometheusClient


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusClient]:
    """Gives a client of a Prometheus that knows every case."""
    with (
        prometheus(tmp_path_factory.mktemp("prometheus"), all_signals()) as address,
        PrometheusClient(address, timeout_s=30) as found,
    ):
        yield found
