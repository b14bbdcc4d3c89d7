"""PCIe: link, traffic, errors."""

from __future__ import annotations

import pynvml

from exporter import metrics as m
from exporter.errors import DriverError
from exporter.nvml.call import GPU_GONE, call, reason_of
from exporter.nvml.fields import FieldId, field_values
from exporter.nvml.gpm import board_read
from exporter.nvml.source import Field, Gpu, Pairs, Raw, Read, Refused, Source, first_of, number, slow
from exporter.screen import is_blank

_LINK = (
    ("gen", pynvml.nvmlDeviceGetCurrPcieLinkGeneration),
    ("width", pynvml.nvmlDeviceGetCurrPcieLinkWidth),
    ("gen_max", pynvml.nvmlDeviceGetMaxPcieLinkGeneration),
    ("width_max", pynvml.nvmlDeviceGetMaxPcieLinkWidth),
)
_ERRORS = (
    ("correctable", pynvml.NVML_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS),
    ("nak_received", pynvml.NVML_FI_DEV_PCIE_COUNT_NAKS_RECEIVED),
    ("receiver", pynvml.NVML_FI_DEV_PCIE_COUNT_RECEIVER_ERROR),
    ("bad_tlp", pynvml.NVML_FI_DEV_PCIE_COUNT_BAD_TLP),
    ("nak_sent", pynvml.NVML_FI_DEV_PCIE_COUNT_NAKS_SENT),
    ("bad_dllp", pynvml.NVML_FI_DEV_PCIE_COUNT_BAD_DLLP),
    ("non_fatal", pynvml.NVML_FI_DEV_PCIE_COUNT_NON_FATAL_ERROR),
    ("fatal", pynvml.NVML_FI_DEV_PCIE_COUNT_FATAL_ERROR),
    ("unsupported_request", pynvml.NVML_FI_DEV_PCIE_COUNT_UNSUPPORTED_REQ),
    ("lcrc", pynvml.NVML_FI_DEV_PCIE_COUNT_LCRC_ERROR),
    ("lane", pynvml.NVML_FI_DEV_PCIE_COUNT_LANE_ERROR),
)
_REPLAYS = Field(m.GPU_PCIE_REPLAYS)


def _replays(gpu: Gpu) -> Pairs:
    return ((_REPLAYS, call(pynvml.nvmlDeviceGetPcieReplayCounter, gpu.handle)),)


def _replays_by_field(gpu: Gpu) -> Pairs:
    return ((_REPLAYS, field_values(gpu.handle, [(pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER, 0)])[0]),)


# --- traffic ---------------------------------------------------------------------------------------------
RATES = (Field(m.GPU_PCIE_BYTES, ("tx",)), Field(m.GPU_PCIE_BYTES, ("rx",)))
_COUNTERS = ((pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0), (pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 0))
_32_BITS = 2.0**32


def _counter_rates(gpu: Gpu) -> Pairs:
    """Rates between the byte counters of this cycle and the last one.

    "Value can be wrapped" (nvml.h): a counter of 32 bits goes round in a tenth of a second on a busy link, so that
    its difference over a cycle means nothing. It is believed only after a number that 32 bits cannot hold.
    """
    now = field_values(gpu.handle, _COUNTERS)
    last: tuple[float, tuple[Raw, ...]] | None = gpu.memory.pop("pcie_counters", None)
    unusable = [raw for raw in now if isinstance(raw, Refused) or is_blank(raw)]
    if unusable:
        return tuple((into, unusable[0]) for into in RATES)
    gpu.memory["pcie_counters"] = (gpu.now_s, now)
    wide = gpu.memory["pcie_wide"] = gpu.memory.get("pcie_wide", False) or max(now) >= _32_BITS
    elapsed_s = 0.0 if last is None else gpu.now_s - last[0]
    if last is None or not wide or elapsed_s <= 0 or any(new < old for new, old in zip(now, last[1], strict=True)):
        return tuple((into, Refused(pynvml.NVML_ERROR_NO_DATA)) for into in RATES)
    return tuple((into, (new - old) / elapsed_s) for into, new, old in zip(RATES, now, last[1], strict=True))


_GPM_RATES = (
    (Field(m.GPU_PCIE_BYTES, ("tx",), times=2**20), pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC),
    (Field(m.GPU_PCIE_BYTES, ("rx",), times=2**20), pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC),
)


def _gpm_rates(gpu: Gpu) -> Pairs:
    """Rates that the hardware counters give, in MiB/s; Hopper and newer."""
    found = board_read(gpu)
    return tuple((into, found[metric]) for into, metric in _GPM_RATES)


RATE_WAYS: tuple[Read, ...] = (_counter_rates, _gpm_rates)
"""Ways to `RATES`, best first; all of them are gauges, so each cycle takes the first one that knows both."""


def _rates(gpu: Gpu) -> Pairs:
    first: Pairs = ()
    for way in RATE_WAYS:
        try:
            found = way(gpu)
        except DriverError as exc:
            if reason_of(exc.code) in GPU_GONE:
                raise
            found = tuple((into, Refused(exc.code)) for into in RATES)
        if not any(isinstance(raw, Refused) for _, raw in found):
            return found
        if all(isinstance(raw, Refused) and raw.permanent for _, raw in first):
            first = found  # what may still come counts for more than what never will
    return first


SOURCES = (
    *(slow([Field(m.GPU_PCIE_LINK, (attr,))], number(function)) for attr, function in _LINK),
    Source(True, (_REPLAYS,), first_of(_replays, _replays_by_field)),
    *(FieldId(True, Field(m.GPU_PCIE_ERRORS, (kind,)), number_) for kind, number_ in _ERRORS),
    Source(False, RATES, _rates),
)
