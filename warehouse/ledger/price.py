"""GPU time to money: exact sums, one rounding, parts that sum to what is shown.

Multiply first, divide last, round once, half-even, to the currency's minor unit. Between, everything is an
integer or a Fraction; a float would lose cents on sums of millions of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from warehouse.model.money import minor_digits
from warehouse.model.state import PPM
from warehouse.model.time import MS_PER_HOUR


def cost(gpu_ms_ppm: int, per_gpu_hour: Decimal) -> Fraction:
    """Gives the exact price of GPU time at a rate.

    Args:
        gpu_ms_ppm: GPU-milliseconds x lost_ppm (whole time: x 1,000,000).
        per_gpu_hour: money per GPU-hour.
    """
    return Fraction(gpu_ms_ppm) * Fraction(per_gpu_hour) / (PPM * MS_PER_HOUR)


def displayed(amount: Fraction, currency: str) -> Decimal:
    """Rounds an exact amount once, half-even, to the currency's minor unit."""
    digits = minor_digits(currency)
    return Decimal(round(amount * 10**digits)).scaleb(-digits)


def largest_remainder(parts: Sequence[Fraction], total: int) -> list[int]:
    """Rounds parts to integers that sum to `total`, each within one of its exact value; ties by position.

    Raises:
        ValueError: when the parts do not sum to within one unit per part of `total`, which no rounding mends.
    """
    floors = [part.numerator // part.denominator for part in parts]
    short = total - sum(floors)
    if not 0 <= short <= len(parts):
        raise ValueError(f"parts sum to {sum(parts)}, not to {total}")
    by_remainder = sorted(range(len(parts)), key=lambda i: (floors[i] - parts[i], i))
    for i in by_remainder[:short]:
        floors[i] += 1
    return floors


def displayed_parts(parts: Sequence[Fraction], currency: str) -> list[Decimal]:
    """Rounds parts to minor units so that they sum to the displayed total of their exact sum."""
    digits = minor_digits(currency)
    scaled = [part * 10**digits for part in parts]
    total = round(sum(scaled, Fraction(0)))
    return [Decimal(units).scaleb(-digits) for units in largest_remainder(scaled, total)]
