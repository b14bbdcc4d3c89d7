"""The only file that imports pynvml: every NVML error becomes a `DriverError` or a reason here.

Runs in the driver processes alone; the process that serves HTTP never loads libnvidia-ml, since a call into
a hung driver cannot be ended from outside.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pynvml

from exporter import metrics as m
from exporter.errors import DriverError, Reason
from exporter.metrics import Family
from exporter.readings import Identity
from exporter.slot import normalise_slot

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
    pynvml.NVML_ERROR_GPU_NOT_FOUND: "missing",
}
PERMANENT: Final = frozenset({"not_supported"})
"""Reasons that are not asked again until the next static refresh."""
GPU_GONE: Final = frozenset({"lost", "reset_required", "driver"})
"""Reasons that, from any single call, mean that the whole GPU does not answer."""


def reason_of(code: int) -> Reason:
    """Maps an NVML return code to the closed set of reasons."""
    return _REASON_BY_CODE.get(code, "unknown")


def _call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
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
    _call(pynvml.nvmlInit)


def close_driver() -> None:
    """Shuts NVML down; a driver that refuses is left as it is, since the process ends anyway."""
    try:
        _call(pynvml.nvmlShutdown)
    except DriverError:
        return


def device_count() -> int:
    """How many GPUs the driver counts; it may include or exclude lost ones, by driver version."""
    return int(_call(pynvml.nvmlDeviceGetCount))


def _text(function: Callable[..., Any], *args: Any) -> str:
    """A string fact, "" when the driver does not give it; a GPU that is gone still raises."""
    try:
        found = _call(function, *args)
    except DriverError as exc:
        if reason_of(exc.code) in GPU_GONE:
            raise
        return ""
    return found.decode(errors="replace") if isinstance(found, bytes) else str(found)


def driver_version() -> str:
    """Version of the kernel driver, "" if it does not say."""
    return _text(pynvml.nvmlSystemGetDriverVersion)


def _cuda_version() -> str:
    number = _text(pynvml.nvmlSystemGetCudaDriverVersion)  # 12040 is CUDA 12.4 (nvml.h)
    return f"{int(number) // 1000}.{int(number) % 1000 // 10}" if number else ""


def _switch(function: Callable[[Any], Any], handle: Any) -> str:
    """An on/off fact as a word, "" if the GPU has none."""
    try:
        found = _call(function, handle)
    except DriverError as exc:
        if reason_of(exc.code) in GPU_GONE:
            raise
        return ""
    current = found[0] if isinstance(found, list) else found
    return "enabled" if current else "disabled"


def device_handle(index: int) -> Any:
    """Handle of the GPU with this index; raises `DriverError`."""
    return _call(pynvml.nvmlDeviceGetHandleByIndex, index)


def device_uuid(handle: Any) -> str:
    """UUID of the GPU: the cheapest call that a lost GPU cannot answer; raises `DriverError`."""
    return str(_call(pynvml.nvmlDeviceGetUUID, handle))


def identify(index: int, handle: Any) -> Identity:
    """Asks a GPU who it is; raises `DriverError` if it cannot say its UUID and PCI address."""
    bus_id = _call(pynvml.nvmlDeviceGetPciInfo, handle).busId
    try:
        slot = normalise_slot(bus_id.decode("ascii") if isinstance(bus_id, bytes) else bus_id)
    except ValueError as exc:
        raise DriverError(pynvml.NVML_ERROR_UNKNOWN) from exc
    return Identity(
        uuid=device_uuid(handle),
        slot=slot,
        index=index,
        model=_text(pynvml.nvmlDeviceGetName, handle),
        serial=_text(pynvml.nvmlDeviceGetSerial, handle),
        vbios=_text(pynvml.nvmlDeviceGetVbiosVersion, handle),
        driver=driver_version(),
        cuda=_cuda_version(),
        mig_mode=_switch(pynvml.nvmlDeviceGetMigMode, handle),
        persistence=_switch(pynvml.nvmlDeviceGetPersistenceMode, handle),
    )


# --- readings --------------------------------------------------------------------------------------------
class Refused(int):
    """The NVML return code of one value in a batch whose call as a whole succeeded."""


Raw = float | Refused


@dataclass(frozen=True, slots=True)
class Field:
    """Where one raw number goes.

    Attributes:
        family: its family.
        labels: values of the labels after `uuid` and `slot`.
        times, per: whole numbers that turn the driver's unit into the family's, so that 94 % is 0.94 exactly.
    """

    family: Family
    labels: tuple[str, ...] = ()
    times: int = 1
    per: int = 1

    def value(self, raw: float) -> float:
        """The raw number in the unit of the family."""
        return raw * self.times / self.per


@dataclass(frozen=True, slots=True)
class Source:
    """One driver call.

    Law: `read` gives one raw value for each of `fields`, in order.

    Attributes:
        slow: True for calls made on the slow cycle alone.
        fields: what it fills.
        read: makes the call; raises `DriverError`.
    """

    slow: bool
    fields: tuple[Field, ...]
    read: Callable[[Any], Sequence[Raw]]


def _utilization(handle: Any) -> Sequence[Raw]:
    return (_call(pynvml.nvmlDeviceGetUtilizationRates, handle).gpu,)


def _memory(handle: Any) -> Sequence[Raw]:
    # Version 1 of this call counts reserved memory as used from R510 on.
    info = _call(pynvml.nvmlDeviceGetMemoryInfo, handle, version=pynvml.nvmlMemory_v2)
    return info.used, info.free, info.reserved, info.total


def _number(function: Callable[..., Any], *args: Any) -> Callable[[Any], Sequence[Raw]]:
    def read(handle: Any) -> Sequence[Raw]:
        return (_call(function, handle, *args),)

    return read


# Members of the value union by its type tag (nvmlValueType_t in nvml.h).
_UNION_MEMBER: Final = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


def _field_values(*field_ids: int) -> Callable[[Any], Sequence[Raw]]:
    """Reads a batch of field ids; the call says success even where a value says otherwise."""

    def one(value: Any) -> Raw:
        if value.nvmlReturn != pynvml.NVML_SUCCESS:
            return Refused(value.nvmlReturn)
        if not 0 <= value.valueType < len(_UNION_MEMBER):
            return Refused(pynvml.NVML_ERROR_UNKNOWN)
        return float(getattr(value.value, _UNION_MEMBER[value.valueType]))

    def read(handle: Any) -> Sequence[Raw]:
        return tuple(one(value) for value in _call(pynvml.nvmlDeviceGetFieldValues, handle, list(field_ids)))

    return read


def _remapped_rows(handle: Any) -> Sequence[Raw]:
    return tuple(_call(pynvml.nvmlDeviceGetRemappedRows, handle))


def _ecc_sources() -> list[Source]:
    kinds = (
        ("corrected", pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
        ("uncorrected", pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
    )
    scopes = (("volatile", pynvml.NVML_VOLATILE_ECC), ("aggregate", pynvml.NVML_AGGREGATE_ECC))
    places = (("sram", pynvml.NVML_MEMORY_LOCATION_SRAM), ("dram", pynvml.NVML_MEMORY_LOCATION_DRAM))
    found: list[Source] = []
    for kind, k in kinds:
        for scope, s in scopes:
            total = Field(m.GPU_ECC_ERRORS, (kind, scope, "all"))
            found.append(Source(True, (total,), _number(pynvml.nvmlDeviceGetTotalEccErrors, k, s)))
            for place, p in places:
                part = Field(m.GPU_ECC_ERRORS, (kind, scope, place))
                read = _number(pynvml.nvmlDeviceGetMemoryErrorCounter, k, s, p)
                found.append(Source(True, (part,), read))
    return found


SOURCES: Final[tuple[Source, ...]] = (
    Source(False, (Field(m.GPU_UTILIZATION, (), per=100),), _utilization),
    Source(False, tuple(Field(m.GPU_MEMORY, (s,)) for s in ("used", "free", "reserved", "total")), _memory),
    Source(False, (Field(m.GPU_POWER, (), per=1000),), _number(pynvml.nvmlDeviceGetPowerUsage)),
    Source(False, (Field(m.GPU_ENERGY, (), per=1000),), _number(pynvml.nvmlDeviceGetTotalEnergyConsumption)),
    Source(
        False,
        (Field(m.GPU_TEMPERATURE, ("gpu",)),),
        _number(pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU),
    ),
    Source(False, (Field(m.GPU_TEMPERATURE, ("memory",)),), _field_values(pynvml.NVML_FI_DEV_MEMORY_TEMP)),
    Source(
        False,
        (Field(m.GPU_CLOCK, ("sm",), times=1_000_000),),
        _number(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_SM),
    ),
    Source(
        False,
        (Field(m.GPU_CLOCK, ("memory",), times=1_000_000),),
        _number(pynvml.nvmlDeviceGetClockInfo, pynvml.NVML_CLOCK_MEM),
    ),
    Source(
        True,
        (Field(m.GPU_POWER_LIMIT, ("enforced",), per=1000),),
        _number(pynvml.nvmlDeviceGetEnforcedPowerLimit),
    ),
    Source(
        True,
        (Field(m.GPU_POWER_LIMIT, ("default",), per=1000),),
        _number(pynvml.nvmlDeviceGetPowerManagementDefaultLimit),
    ),
    *_ecc_sources(),
    Source(
        True,
        (
            Field(m.GPU_REMAPPED_ROWS, ("correctable",)),
            Field(m.GPU_REMAPPED_ROWS, ("uncorrectable",)),
            Field(m.GPU_ROW_REMAP_PENDING),
            Field(m.GPU_ROW_REMAP_FAILED),
        ),
        _remapped_rows,
    ),
    Source(True, (Field(m.GPU_PCIE_REPLAYS),), _number(pynvml.nvmlDeviceGetPcieReplayCounter)),
)
"""Every driver call for readings. A new family is a line in `exporter/metrics.py` and a line here."""


# --- events ----------------------------------------------------------------------------------------------
def handle_key(handle: Any) -> int:
    """The address behind a handle, so that an event can be matched without asking the GPU."""
    return int(ctypes.cast(handle, ctypes.c_void_p).value or 0)


def event_set() -> Any:
    """A new, empty event set; raises `DriverError`."""
    return _call(pynvml.nvmlEventSetCreate)


def register_xid(handle: Any, events: Any) -> None:
    """Asks the driver to put this GPU's XIDs into the set; raises `DriverError`."""
    _call(pynvml.nvmlDeviceRegisterEvents, handle, pynvml.nvmlEventTypeXidCriticalError, events)


def wait_xid(events: Any, timeout_ms: int) -> tuple[int, int] | None:
    """Waits for one event.

    Returns:
        (handle key, XID), or None when nothing happened in `timeout_ms`.

    Raises:
        DriverError: the set is unusable and must be built anew.
    """
    try:
        data = _call(pynvml.nvmlEventSetWait_v2, events, timeout_ms)
    except DriverError as exc:
        if exc.code == pynvml.NVML_ERROR_TIMEOUT:
            return None
        raise
    if data.eventType != pynvml.nvmlEventTypeXidCriticalError:
        return None
    return handle_key(data.device), int(data.eventData)
