"""Temperatures."""

from __future__ import annotations

import pynvml

from exporter import metrics as m
from exporter.nvml.source import Field, fast, field_values, number

SOURCES = (
    fast([Field(m.GPU_TEMPERATURE, ("gpu",))], number(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU)),
    fast([Field(m.GPU_TEMPERATURE, ("memory",))], field_values(pynvml.NVML_FI_DEV_MEMORY_TEMP)),
)
