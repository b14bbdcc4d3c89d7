"""XID events from the driver.

Newer drivers send more types (DRAM retirement, poison, recovery action; nvmlDeviceGetSupportedEventTypes tells which).
None of them is an XID and the contract has no family for them, so they are not asked for: what they tell stands in the
families of remapped rows, ECC errors and the recovery action, and in the XIDs that the driver sends with them.
"""

from __future__ import annotations

import ctypes
from typing import Any

import pynvml

from exporter.errors import DriverError
from exporter.nvml.call import call


def handle_key(handle: Any) -> int:
    """The address behind a handle, so that an event can be matched without asking the GPU."""
    return int(ctypes.cast(handle, ctypes.c_void_p).value or 0)


def event_set() -> Any:
    """A new, empty event set; raises `DriverError`."""
    return call(pynvml.nvmlEventSetCreate)


def register_xid(handle: Any, events: Any) -> None:
    """Asks the driver to put this GPU's XIDs into the set; raises `DriverError`."""
    call(pynvml.nvmlDeviceRegisterEvents, handle, pynvml.nvmlEventTypeXidCriticalError, events)


_NO_INSTANCE = 0xFFFFFFFF  # gpuInstanceId of an event that is not about a MIG instance (nvml.h)


def wait_xid(events: Any, timeout_ms: int) -> tuple[int, int, int | None] | None:
    """Waits for one event.

    Returns:
        (handle key, XID, GPU instance or None), or None when nothing happened in `timeout_ms`.

    Raises:
        DriverError: the set is unusable and must be built anew.
    """
    try:
        data = call(pynvml.nvmlEventSetWait_v2, events, timeout_ms)
    except DriverError as exc:
        if exc.code == pynvml.NVML_ERROR_TIMEOUT:
            return None
        raise
    if data.eventType != pynvml.nvmlEventTypeXidCriticalError:
        return None
    instance = int(data.gpuInstanceId)
    return handle_key(data.device), int(data.eventData), None if instance == _NO_INSTANCE else instance
