"""Memory errors and their repair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pynvml

from exporter import metrics as m
from exporter.nvml.call import call
from exporter.nvml.source import Field, Raw, Source, number, slow


def _remapped_rows(handle: Any) -> Sequence[Raw]:
    return tuple(call(pynvml.nvmlDeviceGetRemappedRows, handle))


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
            found.append(slow([total], number(pynvml.nvmlDeviceGetTotalEccErrors, k, s)))
            for place, p in places:
                part = Field(m.GPU_ECC_ERRORS, (kind, scope, place))
                read = number(pynvml.nvmlDeviceGetMemoryErrorCounter, k, s, p)
                found.append(slow([part], read))
    return found


SOURCES = (
    *_ecc_sources(),
    slow(
        [
            Field(m.GPU_REMAPPED_ROWS, ("correctable",)),
            Field(m.GPU_REMAPPED_ROWS, ("uncorrectable",)),
            Field(m.GPU_ROW_REMAP_PENDING),
            Field(m.GPU_ROW_REMAP_FAILED),
        ],
        _remapped_rows,
    ),
)
