"""Exact sums become shown figures: integers over one divisor, rounded once, half-even, in parts that sum."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from warehouse.model.money import minor_digits
from warehouse.model.state import PPM
from warehouse.model.time import MS_PER_HOUR

# A share of GPU time is held in parts per million, a partial loss of a share in parts per million of those.
WHOLE = PPM
LOST = PPM * PPM
# Rates have eight decimals, as the database holds them: a loss x a rate stays an integer.
RATE_DIGITS = 8
MONEY = LOST * 10**RATE_DIGITS * MS_PER_HOUR

_RATIO_DIGITS = 4


def rate_units(per_gpu_hour: Decimal) -> int:
    """Gives a rate in units of its last stored decimal.

    Raises:
        ValueError: for a rate finer than the database holds.
    """
    units = per_gpu_hour.scaleb(RATE_DIGITS)
    if units != units.to_integral_value():
        raise ValueError(f"a rate has at most {RATE_DIGITS} decimals: {per_gpu_hour}")
    return int(units)


def rounded(exact: int, divisor: int) -> int:
    """Gives exact / divisor, rounded half-even."""
    whole, rest = divmod(exact, divisor)
    return whole + (2 * rest > divisor or (2 * rest == divisor and whole % 2 == 1))


def parts(exact: Sequence[int], divisor: int, total: int | None = None) -> list[int]:
    """Rounds parts so that they sum to `total` (default: their rounded sum), by largest remainder; ties by position.

    Raises:
        ValueError: when the parts do not sum to within one unit per part of `total`, which no rounding mends.
    """
    wanted = rounded(sum(exact), divisor) if total is None else total
    pairs = [divmod(part, divisor) for part in exact]
    shown = [whole for whole, _ in pairs]
    short = wanted - sum(shown)
    if not 0 <= short <= len(shown):
        raise ValueError(f"parts sum to {sum(exact)} / {divisor}, not to {wanted}")
    if short:
        for at in sorted(range(len(pairs)), key=lambda at: (-pairs[at][1], at))[:short]:
            shown[at] += 1
    return shown


def amounts(exact: Sequence[int], currency: str) -> list[Decimal]:
    """Gives money, exact in units of 1 / MONEY, in minor units that sum to the rounded total."""
    digits = minor_digits(currency)
    return [Decimal(units).scaleb(-digits) for units in parts([part * 10**digits for part in exact], MONEY)]


def amount(exact: int, currency: str) -> Decimal:
    """Gives one sum of money in minor units."""
    return amounts([exact], currency)[0]


def ratio(part: int, whole: int) -> str | None:
    """Gives part / whole with four decimals, half-even; None where there is no whole to speak of."""
    if whole == 0:
        return None
    units = rounded(part * 10**_RATIO_DIGITS, whole)
    return f"{units // 10**_RATIO_DIGITS}.{units % 10**_RATIO_DIGITS:0{_RATIO_DIGITS}d}"
