"""The service of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.alerts.deliveries import Api, open_api


@pytest.fixture
def api(database_url: str) -> Iterator[Api]:
    """A service on a fresh database of the embedded server."""
    opened = open_api(database_url)
    yield opened
    opened.engine.dispose()
