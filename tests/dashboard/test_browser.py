"""The pages in a real browser: nothing from elsewhere, no error, the key words, every width and theme."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.dashboard.server import running

pytestmark = pytest.mark.browser

_WAIT_MS = 60_000
_PAGE_BYTES = 250_000


@dataclass
class Seen:
    """What a page did besides being shown."""

    outside: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    not_found: list[str] = field(default_factory=list)
    socket_bytes: int = 0


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def site(site_url: str) -> Iterator[str]:
    """The dashboard on the small site."""
    with running(site_url) as (_, address):
        yield address


@contextmanager
def _opened(browser: Browser, address: str, width: int = 1440, theme: str = "light") -> Iterator[tuple[Page, Seen]]:
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if theme == "dark" else "light",
    )
    page, seen = context.new_page(), Seen()
    home = "/".join(address.split("/")[:3])

    def requested(url: str) -> None:
        if not url.startswith((home, home.replace("http", "ws"), "data:", "blob:")):
            seen.outside.append(url)

    def count(payload: str | bytes) -> None:
        seen.socket_bytes += len(payload)

    page.on("request", lambda request: requested(request.url))
    page.on("websocket", lambda found: found.on("framereceived", count))
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    page.on("console", lambda said: seen.errors.append(said.text) if said.type == "error" else None)
    page.on("response", lambda answer: seen.not_found.append(answer.url) if answer.status == 404 else None)
    page.goto(address)
    page.wait_for_selector("p.gm-trust", timeout=_WAIT_MS)
    yield page, seen
    context.close()


def _clean(seen: Seen, loads: int = 1) -> None:
    assert seen.outside == []
    # Below a deep link the front end looks for its base path in two places that do not exist.
    assert all("/_stcore/" in url for url in seen.not_found) and len(seen.not_found) <= 2 * loads
    assert [error for error in seen.errors if "404" not in error] == []
    assert 0 < seen.socket_bytes <= _PAGE_BYTES * loads


def _wide(page: Page) -> int:
    found = page.evaluate(
        "() => { const m = document.querySelector('[data-testid=stMain]'); return m.scrollWidth - m.clientWidth }"
    )
    assert isinstance(found, int)
    return found


def test_an_alert_leads_straight_to_its_incident(site_url: str, browser: Browser) -> None:
    # The first visit of a fresh server: nothing may depend on the first page having been opened before.
    with running(site_url) as (_, address), _opened(browser, f"{address}/incident?id=1") as (page, seen):
        page.get_by_text("Money").wait_for(timeout=_WAIT_MS)
        page.wait_for_selector(".js-plotly-plot .main-svg", timeout=_WAIT_MS)
        assert page.locator("h1.gm").inner_text().startswith("INC-1 · ")
        assert page.get_by_role("link", name="Incidents", exact=True).is_visible()
        assert "first step" in page.inner_text("body").lower()
        with page.expect_download() as download:
            page.get_by_role("button", name="Report").click()
        assert download.value.suggested_filename.startswith("INC-1-revision-")
        _clean(seen)


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (1440, "dark"), (390, "light")])
def test_the_overview_tells_it_on_one_screen(site: str, browser: Browser, width: int, theme: str) -> None:
    with _opened(browser, site, width, theme) as (page, seen):
        page.wait_for_selector(".js-plotly-plot .main-svg", timeout=_WAIT_MS)
        page.get_by_text("Costliest incidents").wait_for(timeout=_WAIT_MS)
        page.wait_for_function("document.querySelectorAll('.js-plotly-plot .main-svg').length >= 3", timeout=_WAIT_MS)
        said = page.inner_text("body")
        for words in ("Goodput of installed", "Availability", "Cost of loss", "Booked up to", "revision 4", "observed"):
            assert words in said
        assert _wide(page) <= 0, "nothing is cut at the side"
        labels = page.locator("svg .annotation-text").all_text_contents()
        assert "Unknown · not observed" in labels and "Overhead without a cause" in labels
        assert page.locator("[aria-label^='From installed to good']").count() == 1
        _assert_labels_apart(page)
        _clean(seen)


def test_from_the_list_to_an_incident_and_back(site: str, browser: Browser) -> None:
    with _opened(browser, f"{site}/incidents") as (page, seen):
        page.locator("table.gm a").first.wait_for(timeout=_WAIT_MS)
        assert "Began" in page.inner_text("table.gm")
        page.locator("table.gm a").first.click()
        page.get_by_text("Evidence").first.wait_for(timeout=_WAIT_MS)
        assert "/incident?id=" in page.url
        _clean(seen, loads=2)


def _assert_labels_apart(page: Page) -> None:
    boxes = page.evaluate(
        "() => [...document.querySelectorAll('.js-plotly-plot')].map(p => "
        "[...p.querySelectorAll('.annotation-text')].map(t => { const b = t.getBoundingClientRect();"
        " return [b.left, b.top, b.right, b.bottom, t.textContent] }))"
    )
    assert sum(len(plot) for plot in boxes) > 20
    for plot in boxes:
        for at, (left, top, right, bottom, text) in enumerate(plot):
            for other in plot[at + 1 :]:
                # Line boxes are taller than letters: three pixels of leading may overlap.
                apart = right <= other[0] or other[2] <= left or bottom - 3 <= other[1] or other[3] - 3 <= top
                assert apart, f"'{text}' meets '{other[4]}'"
