"""Power and energy."""

from __future__ import annotations

import pynvml

from exporter import metrics as m
from exporter.nvml.source import Field, fast, number, slow

SOURCES = (
    fast([Field(m.GPU_POWER, per=1000)], number(pynvml.nvmlDeviceGetPowerUsage)),
    fast([Field(m.GPU_ENERGY, per=1000)], number(pynvml.nvmlDeviceGetTotalEnergyConsumption)),
    slow([Field(m.GPU_POWER_LIMIT, ("enforced",), per=1000)], number(pynvml.nvmlDeviceGetEnforcedPowerLimit)),
    slow([Field(m.GPU_POWER_LIMIT, ("default",), per=1000)], number(pynvml.nvmlDeviceGetPowerManagementDefaultLimit)),
)
