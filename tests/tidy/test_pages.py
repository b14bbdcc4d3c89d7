"""The generated pages say what the code says; `make docs` writes them again."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.packaging.conftest import ROOT
from tools import causes_page, cli_page, metrics_page, runbooks_page
from tools.detector_words import edges, ends, loss, seen_by
from warehouse.causes import load_causes

RUNBOOKS = ROOT / "docs/runbooks"


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


@pytest.mark.parametrize("category", sorted({code.split("/")[0] for code in load_causes()}))
def test_a_runbook_is_fresh(category: str) -> None:
    assert (RUNBOOKS / f"{category}.md").read_text() == runbooks_page.render_pages(load_causes())[category], (
        "run: make docs"
    )


def test_no_runbook_is_of_a_category_that_is_no_more() -> None:
    assert {page.stem for page in RUNBOOKS.glob("*.md")} == runbooks_page.render_pages(load_causes()).keys()


def test_every_cause_has_a_section_with_its_name_as_the_anchor() -> None:
    """Links of alerts and of the page about the causes lead there; GitHub makes anchors of headings."""
    pages = runbooks_page.render_pages(load_causes())
    for code in load_causes():
        category, name = code.split("/")
        assert re.findall(rf"^## {name}$", pages[category], re.MULTILINE) == [f"## {name}"], code
    linked = re.findall(r"\(runbooks/(\w+)\.md#(\w+)\)", causes_page.render_page(load_causes()))
    assert [f"{category}/{name}" for category, name in linked] == list(load_causes())


def test_the_words_of_a_detector_are_made_of_it() -> None:
    detectors = {d.key: d for cause in load_causes().values() for d in cause.detectors}
    assert edges(detectors["node_unreachable"]).count("`up{") == 2
    assert edges(detectors["driver_xid"]).startswith("An event without length, at the Unix time")
    assert "Hits at most 2 min apart" in edges(detectors["kv_cache_full"])
    assert loss(detectors["endpoint_stalled"]) == "100 %, by the state."
    assert loss(detectors["driver_xid"]) == "None by itself: it is counted."
    assert loss(detectors["canary_failing"]).startswith("The mean over the episode of `clamp(1 - min by (endpoint)")
    assert ends(detectors["node_unreachable"]) == "It ends when the series show it no more."


def test_a_cause_that_nobody_can_see_says_so() -> None:
    unseen = [cause for cause in load_causes().values() if not cause.detectors and not cause.other_sources]
    assert all(seen_by(cause) == "nothing" for cause in unseen)
    assert seen_by(load_causes()["software/unspecified"]) == "a person: import evidence; trace of a vendor"
