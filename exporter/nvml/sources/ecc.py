"""Memory errors and their repair."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import pynvml

from exporter import metrics as m
from exporter.errors import DriverError
from exporter.nvml.call import call
from exporter.nvml.source import Field, Gpu, Pairs, Raw, Source, number, slow

_MODE = "ecc_mode"  # in the memory of a GPU: 1 while ECC is on
_MODES = (Field(m.GPU_ECC_MODE, ("current",)), Field(m.GPU_ECC_MODE, ("pending",)))
_BANKS = ("max", "high", "partial", "low", "none")  # as nvml.h names them


def _modes(gpu: Gpu) -> Pairs:
    gpu.memory.pop(_MODE, None)
    raws = call(pynvml.nvmlDeviceGetEccMode, gpu.handle)
    gpu.memory[_MODE] = raws[0]
    return tuple(zip(_MODES, raws, strict=True))


def _while_on(into: Field, function: Callable[..., Any], *args: Any) -> Source:
    """A counter that does not exist while ECC is off, even if a driver gives a 0 for it."""

    def read(gpu: Gpu) -> Pairs:
        if gpu.memory.get(_MODE) == pynvml.NVML_FEATURE_DISABLED:
            raise DriverError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return ((into, call(function, gpu.handle, *args)),)

    return Source(True, (into,), read)


def _errors() -> list[Source]:
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
            found.append(_while_on(total, pynvml.nvmlDeviceGetTotalEccErrors, k, s))
            for place, p in places:
                part = Field(m.GPU_ECC_ERRORS, (kind, scope, place))
                found.append(_while_on(part, pynvml.nvmlDeviceGetMemoryErrorCounter, k, s, p))
    return found


def _sram_threshold(handle: Any) -> int:
    status = pynvml.c_nvmlEccSramErrorStatus_v1_t()
    pynvml.nvmlDeviceGetSramEccErrorStatus(handle, ctypes.byref(status))
    return int(status.bThresholdExceeded)


def _remapped_rows(handle: Any) -> Sequence[Raw]:
    return tuple(call(pynvml.nvmlDeviceGetRemappedRows, handle))


def _banks(handle: Any) -> Sequence[Raw]:
    histogram = call(pynvml.nvmlDeviceGetRowRemapperHistogram, handle)
    return tuple(getattr(histogram, name) for name in _BANKS)


def _retired(cause: int) -> Callable[[Any], Sequence[Raw]]:
    def read(handle: Any) -> Sequence[Raw]:
        return (float(len(call(pynvml.nvmlDeviceGetRetiredPages, handle, cause))),)

    return read


SOURCES = (
    Source(True, _MODES, _modes),
    *_errors(),
    _while_on(Field(m.GPU_SRAM_ECC_THRESHOLD), _sram_threshold),
    slow(
        [
            Field(m.GPU_REMAPPED_ROWS, ("correctable",)),
            Field(m.GPU_REMAPPED_ROWS, ("uncorrectable",)),
            Field(m.GPU_ROW_REMAP_PENDING),
            Field(m.GPU_ROW_REMAP_FAILED),
        ],
        _remapped_rows,
    ),
    slow([Field(m.GPU_ROW_REMAP_BANKS, (name,)) for name in _BANKS], _banks),
    slow(
        [Field(m.GPU_RETIRED_PAGES, ("single_bit",))],
        _retired(pynvml.NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS),
    ),
    slow(
        [Field(m.GPU_RETIRED_PAGES, ("double_bit",))], _retired(pynvml.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR)
    ),
    slow([Field(m.GPU_RETIRED_PAGES_PENDING)], number(pynvml.nvmlDeviceGetRetiredPagesPendingStatus)),
)
