"""The MIG instances of a board: who they are and what each reads.

A MIG device is a compute instance of a GPU instance. Memory and counters belong to the GPU instance, which may
hold several compute instances: its readings are taken once, through the first of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pynvml

from exporter import metrics as m
from exporter.errors import DriverError, Reason
from exporter.nvml.call import GPU_GONE, call, reason_of, text
from exporter.nvml.gpm import Counters, require
from exporter.nvml.identity import device_uuid
from exporter.nvml.source import Field, Gpu, Raw, Source

_STATES: Final = ("used", "free", "reserved", "total")
_FAMILY_BY_METRIC: Final = {
    pynvml.NVML_GPM_METRIC_SM_UTIL: m.MIG_SM_ACTIVE,
    pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL: m.MIG_TENSOR_ACTIVE,
    pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL: m.MIG_DRAM_ACTIVE,
    pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL: m.MIG_ENGINE_ACTIVE,
}
# "NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb": the driver's own spelling, "+me" and the like included.
_NAME: Final = re.compile(r"\bMIG ((?:\d+c\.)?\d+g\.\d+gb\S*)$")


@dataclass(slots=True)
class Instance:
    """One MIG device.

    Attributes:
        gi, ci: GPU instance and compute instance.
        uuid: of the MIG device.
        profile: "1g.10gb", "" where it cannot be told.
        handle: valid for this cycle alone, since the driver uses handles anew.
        sources: what its GPU instance reads; () for all but the first compute instance of it.
        counters: hardware counters of its GPU instance, kept between cycles.
    """

    gi: int
    ci: int
    uuid: str
    profile: str
    handle: Any
    sources: tuple[Source, ...] = ()
    counters: Counters | None = None

    def close(self) -> None:
        """Reads no more; gives the counters back."""
        if self.counters is not None:
            self.counters.close()
        self.sources, self.counters = (), None


class Roster:
    """The MIG devices of one board, from one cycle to the next.

    Law: a device that is gone, or that was made anew, keeps nothing of what stood in its place.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, int], Instance] = {}

    def look(self, gpu: Gpu) -> tuple[list[Instance], list[Reason]]:
        """The devices there are now, by index, and why others could not be told.

        Raises:
            DriverError: the board is gone, or does not say how many there can be.
        """
        seen: dict[tuple[str, int, int], Instance] = {}
        refused: list[Reason] = []
        for index in range(call(pynvml.nvmlDeviceGetMaxMigDeviceCount, gpu.handle)):
            try:
                instance = self._at(gpu, index)
            except DriverError as exc:
                reason = reason_of(exc.code)
                if reason in GPU_GONE:
                    raise
                if reason != "not_found":  # indices have holes
                    refused.append(reason)
                continue
            seen[instance.uuid, instance.gi, instance.ci] = instance
        for key, instance in self._known.items():
            if key not in seen:
                instance.close()
        self._known = seen
        instances = list(seen.values())
        _choose_readers(gpu, instances)
        return instances, refused

    def _at(self, gpu: Gpu, index: int) -> Instance:
        handle = call(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu.handle, index)
        uuid = device_uuid(handle)
        gi = int(call(pynvml.nvmlDeviceGetGpuInstanceId, handle))
        ci = int(call(pynvml.nvmlDeviceGetComputeInstanceId, handle))
        known = self._known.get((uuid, gi, ci))
        if known is None:
            return Instance(gi, ci, uuid, _profile(gpu.handle, handle), handle)
        known.handle = handle
        return known

    def close(self) -> None:
        """Gives back what every device holds."""
        for instance in self._known.values():
            instance.close()
        self._known = {}


def _choose_readers(gpu: Gpu, instances: Sequence[Instance]) -> None:
    """Lets the first compute instance of each GPU instance read for it, and no other."""
    read: set[int] = set()
    for instance in instances:
        if instance.gi in read:
            instance.close()
        elif not instance.sources:
            instance.sources = (_memory(instance), _activity(gpu, instance))
        read.add(instance.gi)


def _memory(instance: Instance) -> Source:
    fields = tuple(Field(m.MIG_MEMORY, (str(instance.gi), state)) for state in _STATES)

    def read(gpu: Gpu) -> Sequence[tuple[Field, Raw]]:
        info = call(pynvml.nvmlDeviceGetMemoryInfo, instance.handle, version=pynvml.nvmlMemory_v2)
        return tuple((field, getattr(info, state)) for field, state in zip(fields, _STATES, strict=True))

    return Source(False, fields, read)


def _activity(gpu: Gpu, instance: Instance) -> Source:
    board, gi = gpu.handle, instance.gi
    fields = tuple(Field(family, (str(gi),), per=100) for family in _FAMILY_BY_METRIC.values())
    counters = instance.counters = Counters(lambda sample: pynvml.nvmlGpmMigSampleGet(board, gi, sample))

    def read(gpu: Gpu) -> Sequence[tuple[Field, Raw]]:
        require(gpu)
        return tuple(zip(fields, counters.read(gpu.now_s, tuple(_FAMILY_BY_METRIC)), strict=True))

    return Source(False, fields, read)


def _profile(board: Any, handle: Any) -> str:
    """From the name of the device, else from its slices: "" if the driver gives neither."""
    named = _NAME.search(text(pynvml.nvmlDeviceGetName, handle))
    if named is not None:
        return named[1]
    try:
        slices = call(pynvml.nvmlDeviceGetAttributes, handle)
        board_bytes = int(call(pynvml.nvmlDeviceGetMemoryInfo, board, version=pynvml.nvmlMemory_v2).total)
    except DriverError as exc:
        if reason_of(exc.code) in GPU_GONE:
            raise
        return ""
    part = (
        ""
        if slices.computeInstanceSliceCount == slices.gpuInstanceSliceCount
        else f"{slices.computeInstanceSliceCount}c."
    )
    return f"{part}{slices.gpuInstanceSliceCount}g.{profile_gb(slices.memorySizeMB, board_bytes)}gb"


def profile_gb(memory_mib: int, board_bytes: int) -> int:
    """The GB in a profile's name: eighths of the board's nominal size, to the nearest whole number, half up.

    The table of profiles in NVIDIA's MIG user guide follows this: an H200 has 1g.18gb, 1g.35gb, 3g.71gb and
    7g.141gb.
    """
    if board_bytes <= 0:
        return math.floor(memory_mib / 1024 + 0.5)
    eighths = math.floor(8 * memory_mib * 2**20 / board_bytes + 0.5)
    return math.floor(eighths * math.ceil(board_bytes / 2**30) / 8 + 0.5)
