"""Clocks, and what holds them down."""

from __future__ import annotations

import pynvml

from exporter import metrics as m
from exporter.nvml.source import Field, fast, number

SOURCES = (
    fast([Field(m.GPU_CLOCK, ("sm",), times=1_000_000)], number(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM)),
    fast(
        [Field(m.GPU_CLOCK, ("memory",), times=1_000_000)],
        number(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_MEM),
    ),
)
