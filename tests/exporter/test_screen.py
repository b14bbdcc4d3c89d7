"""Blank and impossible numbers never become readings."""

from __future__ import annotations

import math

import pytest

from exporter.errors import Reason
from exporter.metrics import GPU_ENERGY, GPU_POWER, GPU_TEMPERATURE, GPU_UTILIZATION, Family
from exporter.screen import BLANKS, screen

_BASES = (2147483632.0, 9223372036854775792.0, 140737488355328.0)


@pytest.mark.parametrize("blank", [base + n for base in _BASES for n in range(4)])
@pytest.mark.parametrize("family", [GPU_POWER, GPU_ENERGY, GPU_TEMPERATURE])
def test_all_twelve_blanks_are_refused(blank: float, family: Family) -> None:
    assert screen(blank, blank / 1000, family) == "blank"


def test_the_four_blanks_of_int64_are_one_float() -> None:
    assert len(BLANKS) == 4 + 1 + 4


@pytest.mark.parametrize(
    ("family", "value", "reason"),
    [
        (GPU_UTILIZATION, 0.0, None),
        (GPU_UTILIZATION, 1.0, None),
        (GPU_UTILIZATION, 1.01, "out_of_range"),
        (GPU_UTILIZATION, 42949672.95, "out_of_range"),
        (GPU_TEMPERATURE, 151.0, "out_of_range"),
        (GPU_TEMPERATURE, -41.0, "out_of_range"),
        (GPU_POWER, 0.0, None),
        (GPU_POWER, 20_000.5, "out_of_range"),
        (GPU_POWER, math.nan, "out_of_range"),
        (GPU_POWER, math.inf, "out_of_range"),
        (GPU_ENERGY, 2.0**62, "blank"),
    ],
)
def test_impossible_values_are_refused(family: Family, value: float, reason: Reason | None) -> None:
    assert screen(value, value, family) == reason
