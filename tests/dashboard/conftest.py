"""Ledgers for the pages, loaded once a session, and the pages run in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.conftest import _fresh_database
from tests.dashboard import ledgers

APP = Path(__file__).parents[2] / "dashboard" / "app.py"
PAGES = {"overview": "views/overview.py", "incidents": "views/incidents.py", "incident": "views/incident.py"}

Visit = Callable[..., AppTest]


@pytest.fixture(scope="session")
def site_url(embedded_server: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The ledger of the small site."""
    url = _fresh_database(embedded_server)
    ledgers.load_site(url, tmp_path_factory.mktemp("site"))
    return url


@pytest.fixture(scope="session")
def trace_url(embedded_server: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The ledger of the public fault trace."""
    url = _fresh_database(embedded_server)
    ledgers.load_trace(url, tmp_path_factory.mktemp("trace"))
    return url


@pytest.fixture(scope="session")
def empty_url(embedded_server: str) -> str:
    """A database in which nothing was ever stored."""
    return _fresh_database(embedded_server)


@pytest.fixture
def visit(monkeypatch: pytest.MonkeyPatch) -> Visit:
    """Opens a page on a ledger, as a browser would by its address."""

    def call(url: str, page: str = "overview", /, **parameters: str) -> AppTest:
        monkeypatch.setenv("GPU_MINUTES_DATABASE_URL", url)
        at = AppTest.from_file(str(APP), default_timeout=60)
        at.query_params.update(parameters)
        at.run()
        if page != "overview":
            at.switch_page(PAGES[page])
            at.query_params.update(parameters)
            at.run()
        assert not at.exception, [exception.value for exception in at.exception]
        return at

    return call


def text_of(at: AppTest) -> str:
    """Gives everything that a page says in HTML."""
    return "\n".join(block.proto.body for block in at.get("html"))
