"""The address of a page: what goes in comes out, and what is wrong is said."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard import filters, scope
from dashboard.filters import Filter
from dashboard.scope import BadScope, Scope

_INSTANT = st.integers(0, 4_000_000_000_000)
_NAME = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=40)


@st.composite
def scopes(draw: st.DrawFn) -> Scope:
    times = sorted(draw(st.lists(_INSTANT, min_size=2, max_size=2, unique=True)))
    start, end = (time if draw(st.booleans()) else None for time in times)
    return Scope(start, end, draw(st.none() | _NAME), draw(st.none() | st.integers(1, 10**17)), draw(st.none() | _NAME))


@given(scopes())
def test_an_address_gives_back_its_scope(found: Scope) -> None:
    query = dict(parse_qsl(urlsplit(found.url("/incidents", id="5")).query))
    assert query.pop("id") == "5"
    assert scope.read(query) == found


@given(st.dictionaries(st.sampled_from(scope.NAMES), st.text(max_size=200)))
def test_any_address_is_read_or_refused_in_words(parameters: dict[str, str]) -> None:
    try:
        found = scope.read(parameters)
    except BadScope as exc:
        assert exc.faults and all(fault.strip() for fault in exc.faults)
    else:
        assert scope.read(found.parameters()) == found


def test_every_fault_is_named_at_once() -> None:
    with pytest.raises(BadScope) as caught:
        scope.read({"from": "yesterday", "to": "2025-01-01T00:00", "rev": "-1", "card": "x" * 200, "site": "\t"})
    assert [fault.split("'")[1] for fault in caught.value.faults] == ["from", "to", "rev", "card", "site"]
    with pytest.raises(BadScope, match="'to' is not after 'from'"):
        scope.read({"from": "2025-01-02", "to": "2025-01-02"})


def test_other_parameters_and_blank_ones_are_left_alone() -> None:
    assert scope.read({"id": "5", "from": "", "rev": ""}) == Scope()


@pytest.mark.parametrize(
    ("text", "number"), [("5", 5), ("INC-12", 12), (" inc-7 ", 7), ("0", None), ("x", None), (None, None), ("٣", None)]
)
def test_incident_numbers(text: str | None, number: int | None) -> None:
    assert scope.incident_id(text) == number


@given(
    st.sampled_from([None, "power/psu"]), st.sampled_from([None, "open"]), st.none() | _NAME, st.none() | _NAME,
    st.integers(1, 999_999),
)  # fmt: skip
def test_an_address_gives_back_its_filter(
    cause: str | None, status: str | None, text: str | None, node: str | None, page: int
) -> None:
    found = Filter(cause, status, text, node, page)
    assert filters.read(found.parameters(), {"power/psu"}) == (found, [])


def test_a_wrong_filter_is_left_out_and_named() -> None:
    found, faults = filters.read({"cause": "no/such", "status": "merged", "page": "0"}, {"power/psu"})
    assert found == Filter()
    assert len(faults) == 3
