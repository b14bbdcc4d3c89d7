"""Expressions about clocks that are held down, for the causes that do it."""

from __future__ import annotations

from warehouse.model.cause import Threshold

ON_GPU = "on (node, slot, uuid)"
BY_GPU = "by (node, slot, uuid)"

# Two samples at 60 s, and no multiple of common scrape intervals, so that servers with closed and with left-open range
# selectors see the same samples.
WINDOW_MS = 125_000
# Clocks pulse: a pause of two minutes between two holds is the same episode.
STITCH_MS = 120_000
MIN_DURATION_MS = 60_000

MIN_SHARE = Threshold(
    "min_held_share",
    0.05,
    "of the time",
    "below it the hold is a moment, where only the driver's counter tells of it; our judgement",
)
HARDWARE_LOSS = Threshold(
    "held_loss",
    0.5,
    "of the GPU",
    "a hardware slowdown halves the clock or more (dcgm_fields.h, clock event bits 0x8, 0x40, 0x80): the least",
)
USUAL_CLOCK = Threshold(
    "usual_clock_ratio",
    0.85,
    "of the highest SM clock",
    "full load at the default power limit stays below the highest clock by itself; our judgement, set it per site",
)


def held(reason: str, rate: str) -> str:
    """Gives PromQL for GPUs whose clocks a reason holds down now, or by its counter for `$min_held_share` of the time.

    A GPU that is known to do nothing is left out: it loses no work. One whose use nobody knows (under MIG) is kept.

    Args:
        reason: as our families name it.
        rate: the function that takes the counter over `$window`: `rate` to confirm, `irate` to date.
    """
    return (
        f'(gpuminutes_gpu_clock_event_active{{reason="{reason}"}} == 1 or {ON_GPU} '
        f'{rate}(gpuminutes_gpu_clock_event_seconds_total{{reason="{reason}"}}[$window]) > $min_held_share) '
        f"unless {ON_GPU} max_over_time(gpuminutes_gpu_utilization_ratio[$window]) == 0"
    )


def held_coarse(reason: str) -> str:
    """Gives PromQL for GPUs whose clocks a reason held down somewhere in `$span`."""
    return (
        f'max_over_time(gpuminutes_gpu_clock_event_active{{reason="{reason}"}}[$span]) == 1 or {ON_GPU} '
        f'increase(gpuminutes_gpu_clock_event_seconds_total{{reason="{reason}"}}[$span]) > 0'
    )


def lost_while_held(reason: str) -> str:
    """Gives PromQL for the part lost to a hardware slowdown: the least that it costs, for as much time as it holds.

    The flag is sampled, so its mean is the share of time; the counter speaks where there is no flag.
    """
    return (
        f'clamp($held_loss * (max {BY_GPU} (gpuminutes_gpu_clock_event_active{{reason="{reason}"}}) or {ON_GPU} '
        f'max {BY_GPU} (irate(gpuminutes_gpu_clock_event_seconds_total{{reason="{reason}"}}[$window]))), 0, 1)'
    )


# Software lowers the clock by as much as it must, so the clock itself says how much.
LOST_BY_CLOCK = (
    f'clamp(1 - max {BY_GPU} (gpuminutes_gpu_clock_hertz{{domain="sm"}}) / {ON_GPU} '
    f'(max {BY_GPU} (gpuminutes_gpu_clock_max_hertz{{domain="sm"}}) * $usual_clock_ratio), 0, 1)'
)
