"""Power and energy."""

from __future__ import annotations

import pynvml

from exporter import metrics as m
from exporter.nvml.fields import FieldId
from exporter.nvml.source import Field, fast, number, slow

_GPU_ONLY = 0  # scope of the power fields: the GPU alone, without the CPU of its module (nvml.h)

SOURCES = (
    fast([Field(m.GPU_POWER, per=1000)], number(pynvml.nvmlDeviceGetPowerUsage)),
    fast([Field(m.GPU_ENERGY, per=1000)], number(pynvml.nvmlDeviceGetTotalEnergyConsumption)),
    slow([Field(m.GPU_POWER_LIMIT, ("enforced",), per=1000)], number(pynvml.nvmlDeviceGetEnforcedPowerLimit)),
    slow([Field(m.GPU_POWER_LIMIT, ("default",), per=1000)], number(pynvml.nvmlDeviceGetPowerManagementDefaultLimit)),
    FieldId(False, Field(m.GPU_POWER_INSTANT, per=1000), pynvml.NVML_FI_DEV_POWER_INSTANT, _GPU_ONLY),
)
