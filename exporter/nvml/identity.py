"""Who a GPU is: normalised PCI address and UUID, never the index, which is renumbered when a GPU falls off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pynvml

from exporter.errors import DriverError
from exporter.nvml.call import call, driver_version, switch, text
from exporter.readings import Identity
from exporter.slot import normalise_slot


def _cuda_version() -> str:
    number = text(pynvml.nvmlSystemGetCudaDriverVersion)  # 12040 is CUDA 12.4 (nvml.h)
    return f"{int(number) // 1000}.{int(number) % 1000 // 10}" if number else ""


def _number(function: Callable[[Any], int], handle: Any) -> int | None:
    found = text(function, handle)
    return int(found) if found else None


def device_handle(key: int | str) -> Any:
    """Handle of the GPU with this index, or in this slot; raises `DriverError`.

    By slot, the driver initialises no other GPU (nvml.h, nvmlDeviceGetHandleByPciBusId).
    """
    if isinstance(key, str):
        return call(pynvml.nvmlDeviceGetHandleByPciBusId, f"{key}.0".encode())
    return call(pynvml.nvmlDeviceGetHandleByIndex, key)


def device_uuid(handle: Any) -> str:
    """UUID of the GPU: the cheapest call that a lost GPU cannot answer; raises `DriverError`."""
    return str(call(pynvml.nvmlDeviceGetUUID, handle))


def mig_mode(handle: Any) -> str:
    """Whether the board is cut into MIG instances: "enabled", "disabled", or "" where it cannot be or does not say."""
    return switch(pynvml.nvmlDeviceGetMigMode, handle)


def device_slot(handle: Any) -> str:
    """Slot of the GPU; raises `DriverError` if it cannot say its PCI address."""
    bus_id = call(pynvml.nvmlDeviceGetPciInfo, handle).busId
    try:
        return normalise_slot(bus_id.decode("ascii") if isinstance(bus_id, bytes) else bus_id)
    except ValueError as exc:
        raise DriverError(pynvml.NVML_ERROR_UNKNOWN) from exc


def identify(handle: Any) -> Identity:
    """Asks a GPU who it is; raises `DriverError` if it cannot say its UUID and PCI address."""
    slot = device_slot(handle)
    return Identity(
        uuid=device_uuid(handle),
        slot=slot,
        index=_number(pynvml.nvmlDeviceGetIndex, handle),
        model=text(pynvml.nvmlDeviceGetName, handle),
        serial=text(pynvml.nvmlDeviceGetSerial, handle),
        vbios=text(pynvml.nvmlDeviceGetVbiosVersion, handle),
        driver=driver_version(),
        cuda=_cuda_version(),
        mig_mode=mig_mode(handle),
        persistence=switch(pynvml.nvmlDeviceGetPersistenceMode, handle),
        minor=_number(pynvml.nvmlDeviceGetMinorNumber, handle),
    )
