"""The generated pages say what the code says; `make docs` writes them again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.packaging.conftest import ROOT
from tools import causes_page, cli_page, metrics_page
from warehouse.causes import load_causes


@pytest.mark.parametrize(
    ("name", "render"),
    [
        ("causes", lambda: causes_page.render_page(load_causes())),
        ("cli", cli_page.render_page),
        ("metrics", metrics_page.render_page),
    ],
    ids=["causes", "cli", "metrics"],
)
def test_a_generated_page_is_fresh(name: str, render: Callable[[], str]) -> None:
    assert (ROOT / f"docs/{name}.md").read_text() == render(), "run: make docs"
