"""What computes on a GPU."""

from __future__ import annotations

from typing import Any, Final

import pynvml

from exporter.errors import DriverError, Reason
from exporter.metrics import GPU_PROCESS_MEMORY
from exporter.nvml.call import call
from exporter.readings import Process
from exporter.screen import screen

_NO_INSTANCE: Final = 0xFFFFFFFF  # nvml.h: what the instance ids hold outside MIG


def running(handle: Any, dropped: list[Reason]) -> tuple[Process, ...]:
    """Every compute process of a board, those of its MIG instances included.

    Names the version of the call: the unversioned one raises an error of another kind on an older driver, and
    a structure of another version than the call's would swap pid and memory. Version 2 has the same structure.

    Args:
        handle: of the board.
        dropped: gets the reason of each impossible size.

    Raises:
        DriverError: the driver does not say.
    """
    try:
        found = call(pynvml.nvmlDeviceGetComputeRunningProcesses_v3, handle)
    except DriverError as exc:
        if exc.code != pynvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise
        found = call(pynvml.nvmlDeviceGetComputeRunningProcesses_v2, handle)
    return tuple(
        Process(
            pid=int(one.pid),
            memory_bytes=_size(one.usedGpuMemory, dropped),
            gi=None if one.gpuInstanceId == _NO_INSTANCE else int(one.gpuInstanceId),
        )
        for one in found
    )


def _size(raw: int | None, dropped: list[Reason]) -> int | None:
    """The size if it can be one; None too where the driver says that it does not know."""
    if raw is None:
        return None
    bad = screen(raw, raw, GPU_PROCESS_MEMORY)
    if bad is not None:
        dropped.append(bad)
    return None if bad is not None else int(raw)
