"""One database for all examples of a module: each example empties it and begins anew."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from tests.conftest import _fresh_database
from tests.laws.worlds import open_engine


@pytest.fixture(scope="module")
def engine(embedded_server: str) -> Iterator[Engine]:
    """An engine on one database of the module."""
    opened = open_engine(_fresh_database(embedded_server))
    yield opened
    opened.dispose()
