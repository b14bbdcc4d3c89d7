"""How much of the GPU works, by its hardware counters; Hopper and newer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pynvml

from exporter import metrics as m
from exporter.nvml.gpm import board_read
from exporter.nvml.source import Field, Gpu, Raw, Source

_FIELD_BY_METRIC: Final = {
    pynvml.NVML_GPM_METRIC_SM_UTIL: Field(m.GPU_SM_ACTIVE, per=100),
    pynvml.NVML_GPM_METRIC_SM_OCCUPANCY: Field(m.GPU_SM_OCCUPANCY, per=100),
    pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL: Field(m.GPU_TENSOR_ACTIVE, per=100),
    pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL: Field(m.GPU_DRAM_ACTIVE, per=100),
    pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL: Field(m.GPU_ENGINE_ACTIVE, per=100),
}


def _read(gpu: Gpu) -> Sequence[tuple[Field, Raw]]:
    found = board_read(gpu)
    return tuple((into, found[metric]) for metric, into in _FIELD_BY_METRIC.items())


SOURCES = (Source(False, tuple(_FIELD_BY_METRIC.values()), _read),)
