"""How busy a GPU is, and how full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pynvml

from exporter import metrics as m
from exporter.errors import DriverError
from exporter.nvml.call import call
from exporter.nvml.source import Field, Gpu, Pairs, Raw, Source, fast

_UTILIZATION = Field(m.GPU_UTILIZATION, per=100)
_MEMORY_COPY = Field(m.GPU_MEMORY_COPY, per=100)


def _utilization(gpu: Gpu) -> Pairs:
    # Not defined under MIG (nvml.h); a 0 that a driver gives there all the same is not a reading.
    if gpu.identity.mig_mode == "enabled":
        raise DriverError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    rates = call(pynvml.nvmlDeviceGetUtilizationRates, gpu.handle)
    return (_UTILIZATION, rates.gpu), (_MEMORY_COPY, rates.memory)


def _memory(handle: Any) -> Sequence[Raw]:
    # Version 1 of this call counts reserved memory as used from R510 on.
    info = call(pynvml.nvmlDeviceGetMemoryInfo, handle, version=pynvml.nvmlMemory_v2)
    return info.used, info.free, info.reserved, info.total


SOURCES = (
    Source(False, (_UTILIZATION, _MEMORY_COPY), _utilization),
    fast([Field(m.GPU_MEMORY, (state,)) for state in ("used", "free", "reserved", "total")], _memory),
)
