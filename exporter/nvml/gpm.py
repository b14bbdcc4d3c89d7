"""GPM, the hardware counters of Hopper and newer: each share of time is the difference of two samples.

Names, numbers and units are those of the GPM section of nvml.h, as nvidia-ml-py 13 declares them: shares are
percent, traffic is MiB/s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pynvml

from exporter.errors import DriverError
from exporter.nvml.call import call
from exporter.nvml.source import Gpu, Raw, Refused

# Two samples must lie more than 100 ms apart (nvml.h). A cycle is a second or more; its jitter is allowed for.
MIN_WINDOW_S: Final = 0.9
# A mean over more than this says nothing about now: after a hang or a suspended host, one begins anew.
MAX_WINDOW_S: Final = 600.0
BOARD_METRICS: Final = (
    pynvml.NVML_GPM_METRIC_SM_UTIL,
    pynvml.NVML_GPM_METRIC_SM_OCCUPANCY,
    pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL,
    pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL,
    pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL,
    pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC,
    pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC,
)
_SUPPORTED: Final = "gpm supported"  # names in the memory of a GPU
_BOARD: Final = "gpm board"


def require(gpu: Gpu) -> None:
    """Asks once whether this board has GPM; its readers do not exclude each other, so nobody has to be asked to leave.

    Raises:
        DriverError: "not supported" before Hopper and with a driver that does not know the call.
    """
    if _SUPPORTED in gpu.refused:
        raise DriverError(gpu.refused[_SUPPORTED])
    if _SUPPORTED in gpu.memory:
        return
    try:
        if not call(pynvml.nvmlGpmQueryDeviceSupport, gpu.handle).isSupportedDevice:
            raise DriverError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    except DriverError as exc:
        code = Refused(exc.code)
        if code.permanent:
            gpu.refused[_SUPPORTED] = code
        raise
    gpu.memory[_SUPPORTED] = True


class Counters:
    """The counters of one board or of one GPU instance.

    The older sample is the one of the last cycle, so that nothing ever waits.

    Laws: at most two samples are held, and `close` gives both back; a share is given only over a window of
    `MIN_WINDOW_S` to `MAX_WINDOW_S`.

    Args:
        take: reads the counters into a sample; raises an NVML error.
    """

    def __init__(self, take: Callable[[Any], object]) -> None:
        self._take = take
        self._samples: list[Any] = []  # the older one first
        self._older_s: float | None = None

    def read(self, now_s: float, metrics: Sequence[int]) -> list[Raw]:
        """Means since the last cycle.

        Args:
            now_s: monotonic seconds.
            metrics: GPM metric ids.

        Returns:
            One raw value per metric, in order.

        Raises:
            DriverError: "no data" when there is no older sample, or none of the right age.
        """
        older_s = self._older_s
        if older_s is not None and now_s - older_s < MIN_WINDOW_S:
            raise DriverError(pynvml.NVML_ERROR_NO_DATA)  # the older sample stays: the next window is longer
        while len(self._samples) < 2:
            self._samples.append(call(pynvml.nvmlGpmSampleAlloc))
        older, newer = self._samples
        self._older_s = None  # if the next call fails, both samples are worthless
        call(self._take, newer)
        self._samples = [newer, older]
        self._older_s = now_s
        if older_s is None or now_s - older_s > MAX_WINDOW_S:
            raise DriverError(pynvml.NVML_ERROR_NO_DATA)
        return _differences(older, newer, metrics)

    def close(self) -> None:
        """Frees the samples."""
        samples, self._samples, self._older_s = self._samples, [], None
        for sample in samples:
            try:
                call(pynvml.nvmlGpmSampleFree, sample)
            except DriverError:
                continue  # a driver that refuses keeps it until the process ends


def board_read(gpu: Gpu) -> Mapping[int, Raw]:
    """The counters of the board by metric id, `BOARD_METRICS`; asked once a cycle, whoever asks.

    Raises:
        DriverError: see `require` and `Counters.read`.
    """
    known: _Board | None = gpu.memory.get(_BOARD)
    if known is None:
        require(gpu)
        handle = gpu.handle
        known = gpu.memory[_BOARD] = _Board(Counters(lambda sample: pynvml.nvmlGpmSampleGet(handle, sample)))
    if known.read_s != gpu.now_s:
        known.read_s = gpu.now_s
        try:
            known.found = dict(zip(BOARD_METRICS, known.counters.read(gpu.now_s, BOARD_METRICS), strict=True))
        except DriverError as exc:
            known.found = exc
    if isinstance(known.found, DriverError):
        raise DriverError(known.found.code)
    return known.found


@dataclass(slots=True)
class _Board:
    """What `board_read` keeps: the counters, and what they gave in the cycle that began at `read_s`."""

    counters: Counters
    read_s: float = -math.inf
    found: dict[int, Raw] | DriverError = field(default_factory=dict)

    def close(self) -> None:
        self.counters.close()


def _differences(older: Any, newer: Any, metrics: Sequence[int]) -> list[Raw]:
    asked = pynvml.c_nvmlGpmMetricsGet_t()
    asked.version = pynvml.NVML_GPM_METRICS_GET_VERSION
    asked.numMetrics = len(metrics)
    asked.sample1, asked.sample2 = older, newer
    for at, number in enumerate(metrics):
        asked.metrics[at].metricId = number
    call(pynvml.nvmlGpmMetricsGet, asked)
    found = [asked.metrics[at] for at in range(len(metrics))]
    # The call says success even where a metric says otherwise.
    return [one.value if one.nvmlReturn == pynvml.NVML_SUCCESS else Refused(one.nvmlReturn) for one in found]
