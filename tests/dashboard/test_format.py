"""How figures are written: three digits and a unit, a dash for what is unknown."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard import format as f
from warehouse.model.state import GpuTimeClass, State


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("0", "0"),
        ("5", "5"),
        ("5.125", "5.12"),
        ("12.34", "12.3"),
        ("99.96", "100"),
        ("999", "999"),
        ("1000", "1 k"),
        ("1234", "1.23 k"),
        ("999499", "999 k"),
        ("999500", "1.00 M"),
        ("37201836.672", "37.2 M"),
        ("1603584000", "1.60 B"),
        ("-1500", "-1.50 k"),
    ],
)
def test_short_numbers(value: str, said: str) -> None:
    assert f.short(Decimal(value)) == said


@pytest.mark.parametrize(
    ("part", "whole", "said"),
    [
        (0, 100, "0 %"),
        (100, 100, "100 %"),
        (1, 10**9, "< 0.01 %"),
        (10**9 - 1, 10**9, "> 99.99 %"),
        (232, 10_000, "2.32 %"),
        (5_000, 10_000, "50.0 %"),
        (9_768, 10_000, "97.68 %"),
        (1, 0, "-"),
    ],
)
def test_a_share_is_nothing_or_all_only_when_it_is(part: int, whole: int, said: str) -> None:
    assert f.share(part, whole) == said


def test_unknown_is_a_dash_and_never_zero() -> None:
    assert f.money(None, "USD") == f.money("1.00", None) == f.short_money(None, "USD") == f.percent(None) == "-"


def test_money() -> None:
    assert f.money("1519075.00", "USD") == "$1,519,075.00"
    assert f.money(Decimal("-2.5"), "CHF") == "-2.5 CHF"
    assert f.short_money("1519075.00", "EUR") == "€1.52 M"


def test_times() -> None:
    assert f.instant("2025-03-13T23:30:54.720Z") == "13 Mar 2025 23:30Z"
    assert f.instant(None) == "open"
    assert f.day("2025-03-13T23:30:54.720Z") == "13 Mar 2025"
    assert (f.bucket("2026-11-05", "day"), f.bucket("2026-11", "month")) == ("5 Nov 26", "Nov 26")
    assert f.duration(None) == "still open"


def test_every_state_and_class_has_words() -> None:
    words = {f.part(name, state) for name in GpuTimeClass for state in State}
    assert len(words) == len(GpuTimeClass) * len(State)


@given(st.text())
def test_outside_text_stays_text(text: str) -> None:
    assert "<" not in f.html(text) and '"' not in f.html(text)
    assert "<" not in f.plot(text)
    unescaped = f.markdown(text).replace("\\\\", "")
    for letter in "`*[$<":
        assert unescaped.count(letter) == unescaped.count("\\" + letter)


@given(st.text(max_size=50), st.integers(2, 60))
def test_clipped_text_fits(text: str, length: int) -> None:
    assert len(f.clipped(text, length)) <= length or f.clipped(text, length) == text
