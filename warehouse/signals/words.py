"""Label values of our families that more than one dialect gives; the exporter's own words."""

from __future__ import annotations

from exporter.metrics import CLOCK_REASONS

__all__ = ["CLOCK_REASONS"]

IDLE, APPLICATION_CLOCKS, SW_POWER_CAP, HW_SLOWDOWN, SYNC_BOOST, SW_THERMAL, HW_THERMAL, POWER_BRAKE, DISPLAY = (
    CLOCK_REASONS
)
