"""Label values of our families that more than one dialect gives; the exporter's own words."""

from __future__ import annotations

from typing import Final

CLOCK_REASONS: Final = (
    "idle",
    "application_clocks",
    "sw_power_cap",
    "hw_slowdown",
    "sync_boost",
    "sw_thermal",
    "hw_thermal",
    "power_brake",
    "display",
)
"""Values of `reason` by bit of the driver's mask (nvml.h, nvmlClocksEventReasons: 0x1 to 0x100)."""

IDLE, APPLICATION_CLOCKS, SW_POWER_CAP, HW_SLOWDOWN, SYNC_BOOST, SW_THERMAL, HW_THERMAL, POWER_BRAKE, DISPLAY = (
    CLOCK_REASONS
)
