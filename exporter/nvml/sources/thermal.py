"""Temperatures."""

from __future__ import annotations

import pynvml

from exporter import metrics as m
from exporter.nvml.call import call
from exporter.nvml.fields import FieldId
from exporter.nvml.source import Field, Gpu, Pairs, Source, fast, first_of, number
from exporter.screen import is_blank

_MARGIN = Field(m.GPU_TEMPERATURE_MARGIN)


def _margin(gpu: Gpu) -> Pairs:
    return ((_MARGIN, call(pynvml.nvmlDeviceGetMarginTemperature, gpu.handle)),)


def _margin_from_threshold(gpu: Gpu) -> Pairs:
    """For drivers and boards without a margin; 0 is at the same place, the highest operating temperature."""
    kind = pynvml.NVML_TEMPERATURE_THRESHOLD_GPU_MAX
    threshold = call(pynvml.nvmlDeviceGetTemperatureThreshold, gpu.handle, kind)
    now = call(pynvml.nvmlDeviceGetTemperature, gpu.handle, pynvml.NVML_TEMPERATURE_GPU)
    blank = next((raw for raw in (threshold, now) if is_blank(raw)), None)
    return ((_MARGIN, threshold - now if blank is None else blank),)


SOURCES = (
    fast([Field(m.GPU_TEMPERATURE, ("gpu",))], number(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU)),
    FieldId(False, Field(m.GPU_TEMPERATURE, ("memory",)), pynvml.NVML_FI_DEV_MEMORY_TEMP),
    Source(False, (_MARGIN,), first_of(_margin, _margin_from_threshold)),
)
