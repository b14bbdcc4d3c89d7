"""NVLink: links, traffic, errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pynvml

from exporter import metrics as m
from exporter.errors import DriverError
from exporter.nvml.call import call
from exporter.nvml.fields import field_values
from exporter.nvml.source import Field, Gpu, Pairs, Raw, Read, Refused, Source, first_of
from exporter.screen import is_blank

_STATES = (Field(m.GPU_NVLINKS, ("active",)), Field(m.GPU_NVLINKS, ("inactive",)))
_LINKS = "nvlinks"  # in the memory of a GPU: whether each link is active, or the code that refused it
_LAST = "nvlink_counters"  # likewise: the last number of every (field id, link)
_NO_LINK: Final = (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_INVALID_ARGUMENT)
_ALL_LINKS: Final = 0xFFFFFFFF  # scope of the sum over all links (nvml.h)

_BYTES = (Field(m.GPU_NVLINK_BYTES, ("tx",)), Field(m.GPU_NVLINK_BYTES, ("rx",)))
_KIB = tuple(Field(m.GPU_NVLINK_BYTES, into.labels, times=1024) for into in _BYTES)
_KIB_IDS = (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX)
_BYTE_IDS = (pynvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES, pynvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES)


def _error(kind: str) -> Field:
    return Field(m.GPU_NVLINK_ERRORS, (kind,))


_LINK_ERRORS = (
    (_error("replay"), pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY),
    (_error("recovery"), pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY),
    (_error("crc"), pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_CRC),
)
# NVLink 5 knows none of the three (nvml.h: "unsupported for Blackwell+"); it counts these.
_NVLINK5_ERRORS = (
    (_error("recovery"), pynvml.NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS),
    (_error("recovery_failed"), pynvml.NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS),
    (_error("receive"), pynvml.NVML_FI_DEV_NVLINK_COUNT_RCV_ERRORS),
    (_error("receive_remote"), pynvml.NVML_FI_DEV_NVLINK_COUNT_RCV_REMOTE_ERRORS),
    (_error("receive_general"), pynvml.NVML_FI_DEV_NVLINK_COUNT_RCV_GENERAL_ERRORS),
    (_error("link_integrity"), pynvml.NVML_FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS),
    (_error("transmit_discard"), pynvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_DISCARDS),
)
# Sums that the driver makes itself, before it had the counters by link.
_TOTALS = (
    (_error("replay"), (pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,)),
    (_error("recovery"), (pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL,)),
    (
        _error("crc"),
        (pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, pynvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL),
    ),
)


def _links(gpu: Gpu) -> Pairs:
    """Asks link after link until there is none; the other sources here go by what it finds."""
    states: list[bool] = []
    try:
        for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
            try:
                states.append(bool(call(pynvml.nvmlDeviceGetNvLinkState, gpu.handle, link)))
            except DriverError as exc:
                if exc.code not in _NO_LINK:
                    raise
                if link == 0:
                    raise DriverError(pynvml.NVML_ERROR_NOT_SUPPORTED) from exc
                break
    except DriverError as exc:
        gpu.memory[_LINKS] = exc.code
        raise
    gpu.memory[_LINKS] = tuple(states)
    return (_STATES[0], states.count(True)), (_STATES[1], states.count(False))


def _active(gpu: Gpu) -> list[int]:
    """Numbers of the active links; raises `DriverError` if there is none, since then a counter means nothing."""
    states = gpu.memory.get(_LINKS, pynvml.NVML_ERROR_NO_DATA)
    if isinstance(states, int):
        raise DriverError(states)
    active = [link for link, state in enumerate(states) if state]
    if not active:
        raise DriverError(pynvml.NVML_ERROR_NO_DATA)
    return active


def _add(raws: Sequence[Raw]) -> Raw:
    """The sum; what cannot be added, a refusal or a blank, stands for the whole."""
    return next((raw for raw in raws if isinstance(raw, Refused) or is_blank(raw)), sum(raws))


def _over_links(*members: tuple[Field, int]) -> Read:
    """Sums of counters by link.

    A link that is no longer active keeps its last number, since what it carried stays carried; without that the sum
    would fall, and a fall of a counter reads as a start anew.
    """

    def read(gpu: Gpu) -> Pairs:
        links = _active(gpu)
        keys = [(number, link) for _, number in members for link in links]
        now = dict(zip(keys, field_values(gpu.handle, keys), strict=True))
        last: dict[tuple[int, int], Raw] = gpu.memory.setdefault(_LAST, {})
        for key, raw in now.items():
            if not isinstance(raw, Refused) and not is_blank(raw):
                last[key] = raw
        known = {**last, **now}
        return tuple((into, _add([raw for (n, _), raw in known.items() if n == number])) for into, number in members)

    return read


def _kib_sums(gpu: Gpu) -> Pairs:
    _active(gpu)
    return tuple(zip(_KIB, field_values(gpu.handle, [(number, _ALL_LINKS) for number in _KIB_IDS]), strict=True))


def _error_totals(gpu: Gpu) -> Pairs:
    _active(gpu)
    keys = [(number, 0) for _, numbers in _TOTALS for number in numbers]
    raws = dict(zip(keys, field_values(gpu.handle, keys), strict=True))
    return tuple((into, _add([raws[number, 0] for number in numbers])) for into, numbers in _TOTALS)


SOURCES = (
    Source(True, _STATES, _links),
    Source(True, _BYTES, first_of(_kib_sums, _over_links(*zip(_BYTES, _BYTE_IDS, strict=True)))),
    Source(
        True,
        tuple(into for into, _ in _LINK_ERRORS),
        first_of(_over_links(*_LINK_ERRORS), _over_links(*_NVLINK5_ERRORS), _error_totals),
    ),
)
