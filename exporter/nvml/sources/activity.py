"""How busy a GPU is, and how full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pynvml

from exporter import metrics as m
from exporter.nvml.call import call
from exporter.nvml.source import Field, Raw, fast


def _utilization(handle: Any) -> Sequence[Raw]:
    return (call(pynvml.nvmlDeviceGetUtilizationRates, handle).gpu,)


def _memory(handle: Any) -> Sequence[Raw]:
    # Version 1 of this call counts reserved memory as used from R510 on.
    info = call(pynvml.nvmlDeviceGetMemoryInfo, handle, version=pynvml.nvmlMemory_v2)
    return info.used, info.free, info.reserved, info.total


SOURCES = (
    fast([Field(m.GPU_UTILIZATION, per=100)], _utilization),
    fast([Field(m.GPU_MEMORY, (state,)) for state in ("used", "free", "reserved", "total")], _memory),
)
