"""Registration with the NVLink fabric; a GPU that is not registered looks well and has no peers."""

from __future__ import annotations

import ctypes

import pynvml

from exporter import metrics as m
from exporter.nvml.call import call
from exporter.nvml.source import Field, Gpu, Pairs, Raw, Refused, Source

_STATE, _STATUS = Field(m.GPU_FABRIC_STATE), Field(m.GPU_FABRIC_STATUS)


def _fabric(gpu: Gpu) -> Pairs:
    info = pynvml.c_nvmlGpuFabricInfo_v2_t()
    call(pynvml.nvmlDeviceGetGpuFabricInfoV, gpu.handle, ctypes.byref(info))
    # The status means something only when the registration has ended (nvml.h).
    completed = info.state == pynvml.NVML_GPU_FABRIC_STATE_COMPLETED
    status: Raw = info.status if completed else Refused(pynvml.NVML_ERROR_NO_DATA)
    return (_STATE, info.state), (_STATUS, status)


SOURCES = (Source(True, (_STATE, _STATUS), _fabric),)
