"""Money: exact until shown, rounded once, parts that sum."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warehouse.ledger.price import cost, displayed, displayed_parts, largest_remainder
from warehouse.model.money import is_currency, minor_digits
from warehouse.model.state import PPM
from warehouse.model.time import MS_PER_MINUTE, MS_PER_SECOND


def test_ten_minutes_of_a_large_job() -> None:
    # The worked example of formulas for one failure: 163,840 GPU-minutes at 2.35 USD per GPU-hour.
    gpu_ms = 16_384 * 10 * MS_PER_MINUTE
    assert displayed(cost(gpu_ms * PPM, Decimal("2.35")), "USD") == Decimal("6417.07")


def test_a_million_small_costs_stay_exact() -> None:
    one = cost(MS_PER_SECOND * PPM, Decimal("2.49"))
    assert one * 1_000_000 == Fraction(2075, 3)


def test_parts_sum_to_the_shown_total() -> None:
    third = Fraction(Decimal("100.01")) / 3
    assert displayed_parts([third, third, third], "USD") == [Decimal("33.34"), Decimal("33.34"), Decimal("33.33")]


def test_half_to_even_once() -> None:
    assert displayed(Fraction(Decimal("0.125")), "USD") == Decimal("0.12")
    assert displayed(Fraction(Decimal("0.135")), "USD") == Decimal("0.14")
    assert displayed(Fraction(5, 2), "JPY") == Decimal("2")


@given(st.lists(st.fractions(min_value=0, max_value=10**12, max_denominator=10**7), max_size=30))
def test_largest_remainder_sums_and_stays_near(parts: list[Fraction]) -> None:
    total = round(sum(parts, Fraction(0)))
    rounded = largest_remainder(parts, total)
    assert sum(rounded) == total
    assert all(abs(got - part) <= 1 for got, part in zip(rounded, parts, strict=True))


def test_parts_of_another_total_are_refused() -> None:
    with pytest.raises(ValueError, match="parts sum to"):
        largest_remainder([Fraction(1), Fraction(2)], 30)


def test_currencies() -> None:
    assert is_currency("USD") and not is_currency("usd") and not is_currency("XXX")
    assert [minor_digits(code) for code in ("USD", "JPY", "KWD")] == [2, 0, 3]
