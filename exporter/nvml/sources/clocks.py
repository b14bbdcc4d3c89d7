"""Clocks, and what holds them down."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import pynvml

from exporter import metrics as m
from exporter.nvml.call import call
from exporter.nvml.fields import FieldId
from exporter.nvml.source import Field, Gpu, Pairs, Refused, Source, fast, first_of, number, slow
from exporter.screen import is_blank

_DOMAINS = (("sm", pynvml.NVML_CLOCK_SM), ("memory", pynvml.NVML_CLOCK_MEM))
_HERTZ = 1_000_000  # NVML speaks in MHz

_ACTIVE = tuple(Field(m.GPU_CLOCK_EVENT_ACTIVE, (reason,)) for reason in m.CLOCK_REASONS)


def _bits(gpu: Gpu, function: Callable[[Any], int]) -> Pairs:
    mask = call(function, gpu.handle)
    if is_blank(mask):
        return tuple((into, float(mask)) for into in _ACTIVE)  # dropped and counted as what it is
    known = tuple((into, float(mask >> bit & 1)) for bit, into in enumerate(_ACTIVE))
    others = (bit for bit in range(len(_ACTIVE), mask.bit_length()) if mask >> bit & 1)
    return (*known, *((Field(m.GPU_CLOCK_EVENT_ACTIVE, (f"bit_{bit}",)), 1.0) for bit in others))


def _event_reasons(gpu: Gpu) -> Pairs:
    return _bits(gpu, pynvml.nvmlDeviceGetCurrentClocksEventReasons)


def _throttle_reasons(gpu: Gpu) -> Pairs:
    """The same mask under its name before R535."""
    return _bits(gpu, pynvml.nvmlDeviceGetCurrentClocksThrottleReasons)


# Unit of the five counters: "All counters are in nanoseconds" (nvml.h), while nvidia-smi prints microseconds. It is
# still owed a look at a real GPU; whoever has one changes it here alone.
_PER_SECOND: Final = 1_000_000_000

# The ids of three counters moved between drivers, and each set means something else to the other drivers (power
# smoothing). As published with each driver in nvidia-ml-py: none in 570.172, 251-253 in 575.51 and 580.65, 269-271
# from 580.82 on. What lies between the last two is unknown, so it is not asked.
_FIRST_WITH_COUNTERS: Final = (575,)
_LAST_WITH_OLD_IDS: Final = (580, 65)
_FIRST_WITH_NEW_IDS: Final = (580, 82)


def _by_driver(before: int | None, old: int, new: int) -> Callable[[Gpu], int | Refused]:
    """Which field id to ask, by the version of the driver.

    Args:
        before: id before the counters came, None if there is none.
        old: id in the drivers up to 580.65.
        new: id in those from 580.82 on.
    """

    def find(gpu: Gpu) -> int | Refused:
        version = tuple(map(int, re.findall(r"\d+", gpu.identity.driver)[:2]))
        if not version:
            return Refused(pynvml.NVML_ERROR_UNKNOWN)
        if version < _FIRST_WITH_COUNTERS:
            return Refused(pynvml.NVML_ERROR_NOT_SUPPORTED) if before is None else before
        if version <= _LAST_WITH_OLD_IDS:
            return old
        return new if version >= _FIRST_WITH_NEW_IDS else Refused(pynvml.NVML_ERROR_UNKNOWN)

    return find


_SECONDS: Final[dict[str, int | Callable[[Gpu], int | Refused]]] = {
    "sw_power_cap": pynvml.NVML_FI_DEV_PERF_POLICY_POWER,
    "sync_boost": pynvml.NVML_FI_DEV_PERF_POLICY_SYNC_BOOST,
    # nvml.h translates PERF_POLICY_THERMAL into the software slowdown (nvmlDeviceGetViolationStatus).
    "sw_thermal": _by_driver(pynvml.NVML_FI_DEV_PERF_POLICY_THERMAL, 251, 269),
    "hw_thermal": _by_driver(None, 252, 270),
    "power_brake": _by_driver(None, 253, 271),
}

SOURCES = (
    *(fast([Field(m.GPU_CLOCK, (d,), _HERTZ)], number(pynvml.nvmlDeviceGetClockInfo, i)) for d, i in _DOMAINS),
    *(slow([Field(m.GPU_CLOCK_MAX, (d,), _HERTZ)], number(pynvml.nvmlDeviceGetMaxClockInfo, i)) for d, i in _DOMAINS),
    Source(False, _ACTIVE, first_of(_event_reasons, _throttle_reasons)),
    *(
        FieldId(True, Field(m.GPU_CLOCK_EVENT_SECONDS, (reason,), per=_PER_SECOND), field_id)
        for reason, field_id in _SECONDS.items()
    ),
)
