"""One driver call, and what its return code means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pynvml

from exporter.errors import DriverError, Reason

_REASON_BY_CODE: Final[dict[int, Reason]] = {
    pynvml.NVML_ERROR_UNINITIALIZED: "driver",
    pynvml.NVML_ERROR_NOT_SUPPORTED: "not_supported",
    pynvml.NVML_ERROR_NO_PERMISSION: "no_permission",
    pynvml.NVML_ERROR_NOT_FOUND: "not_found",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "driver",
    pynvml.NVML_ERROR_TIMEOUT: "timeout",
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "driver",
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "not_supported",
    pynvml.NVML_ERROR_GPU_IS_LOST: "lost",
    pynvml.NVML_ERROR_RESET_REQUIRED: "reset_required",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "driver",
    pynvml.NVML_ERROR_NO_DATA: "no_data",
    pynvml.NVML_ERROR_VGPU_ECC_NOT_SUPPORTED: "not_supported",
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH: "not_supported",
    pynvml.NVML_ERROR_DEPRECATED: "not_supported",
    pynvml.NVML_ERROR_GPU_NOT_FOUND: "missing",
}
PERMANENT: Final = frozenset({"not_supported"})
"""Reasons that are not asked again until the next static refresh."""
GPU_GONE: Final = frozenset({"lost", "reset_required", "driver"})
"""Reasons that, from any single call, mean that the whole GPU does not answer."""


def reason_of(code: int) -> Reason:
    """Maps an NVML return code to the closed set of reasons."""
    return _REASON_BY_CODE.get(code, "unknown")


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Makes one call; raises `DriverError` with its return code if that is not success."""
    try:
        return function(*args, **kwargs)
    except pynvml.NVMLError as exc:
        raise DriverError(int(exc.value)) from exc
    except UnicodeDecodeError as exc:  # pynvml decodes names as UTF-8; a sick board can give other bytes
        raise DriverError(pynvml.NVML_ERROR_UNKNOWN) from exc


def open_driver() -> None:
    """Initialises NVML in this process.

    Raises:
        DriverError: with the code that `NVML_RETURN_CODE` shows.
    """
    call(pynvml.nvmlInit)


def close_driver() -> None:
    """Shuts NVML down; a driver that refuses is left as it is, since the process ends anyway."""
    try:
        call(pynvml.nvmlShutdown)
    except DriverError:
        return


def device_count() -> int:
    """How many GPUs the driver counts; it may include or exclude lost ones, by driver version."""
    return int(call(pynvml.nvmlDeviceGetCount))


def text(function: Callable[..., Any], *args: Any) -> str:
    """A string fact, "" when the driver does not give it; a GPU that is gone still raises."""
    try:
        found = call(function, *args)
    except DriverError as exc:
        if reason_of(exc.code) in GPU_GONE:
            raise
        return ""
    return found.decode(errors="replace") if isinstance(found, bytes) else str(found)


def driver_version() -> str:
    """Version of the kernel driver, "" if it does not say."""
    return text(pynvml.nvmlSystemGetDriverVersion)


def switch(function: Callable[[Any], Any], handle: Any) -> str:
    """An on/off fact as a word, "" if the GPU has none."""
    try:
        found = call(function, handle)
    except DriverError as exc:
        if reason_of(exc.code) in GPU_GONE:
            raise
        return ""
    current = found[0] if isinstance(found, list) else found
    return "enabled" if current else "disabled"
