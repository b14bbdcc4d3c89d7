"""Throws out numbers that are not readings: blanks, infinities, impossible values."""

from __future__ import annotations

import math
from typing import Final

from exporter.errors import Reason
from exporter.metrics import Family

_BLANK_BASES: Final = (2147483632.0, 9223372036854775792.0, 140737488355328.0)
BLANKS: Final = frozenset(base + n for base in _BLANK_BASES for n in range(4))
"""DCGM's blank, not found, not supported and not permitted for INT32, INT64 and FP64 (dcgm_structs.h).

As floats the four INT64 values are one: 2^63.
"""
_TOO_LARGE: Final = 2.0**62


def is_blank(raw: float) -> bool:
    """True for a number that stands for "no value"; to be asked before a raw number is taken apart or added up."""
    return raw in BLANKS or raw >= _TOO_LARGE


def screen(raw: float, value: float, family: Family) -> Reason | None:
    """Says why a raw number may not be served, or None if it may.

    Blanks are judged in the driver's unit, the range in ours.

    Args:
        raw: the number as the driver gave it.
        value: the same in the family's unit.
        family: where the value would stand.
    """
    if not math.isfinite(raw):
        return "out_of_range"
    if is_blank(raw):
        return "blank"
    if family.valid is not None and not family.valid[0] <= value <= family.valid[1]:
        return "out_of_range"
    return None
