"""Block devices: how long their requests took, how long they were busy, how many are in flight.

One read of `/proc/diskstats` (kernel Documentation/admin-guide/iostats.rst). Its milliseconds are printed with 32 bits
(block/genhd.c), so a counter starts again from 0 after 49.7 days of waiting; it is passed on as it stands, and
`rate()` takes the fall for a reset. A dm or md device counts again what its disks count: never sum over `dev`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from exporter import metrics as m
from exporter.collector import Collector, NodeState
from exporter.config import PROCFS, SYSFS, Settings
from exporter.errors import Reason
from exporter.kernel import READ_REASONS, read_text, whole_number
from exporter.readings import Sample

FAMILIES = (m.DISK_IO_SECONDS, m.DISK_IO_BUSY_SECONDS, m.DISK_IOS_IN_PROGRESS)
# What is no storage of its own: loops over files, memory, floppy and optical drives.
_SKIPPED = re.compile(r"(?:loop|ram|zram|fd|sr)[0-9]+")
# Names of partitions: a number behind a name that ends in a letter, else a `p` and a number behind a name that ends
# in a digit (kernel block/partitions, disk_name).
_PARTITION = re.compile(r"(?:[hs]d|vd|xvd)[a-z]+[0-9]+|.*[0-9]p[0-9]+")
_LONGEST_MS = 2**32
# A count below 0, which some drivers come to, is printed without its sign.
_MOST_IN_FLIGHT = 2**31
_MIN_COLUMNS = 14


def disk_samples(device: str, read_ms: float, write_ms: float, busy_ms: float, in_flight: float) -> Iterator[Sample]:
    """Samples of one device."""
    yield Sample(m.DISK_IO_SECONDS, (device, "read"), read_ms / 1e3)
    yield Sample(m.DISK_IO_SECONDS, (device, "write"), write_ms / 1e3)
    yield Sample(m.DISK_IO_BUSY_SECONDS, (device,), busy_ms / 1e3)
    yield Sample(m.DISK_IOS_IN_PROGRESS, (device,), in_flight)


def is_partition(device: str, sysfs: Path) -> bool:
    """Whether a device is a part of another one; by its name where sys does not know it."""
    folder = sysfs / "class" / "block" / device.replace("/", "!")
    if folder.is_dir():
        return (folder / "partition").exists()
    return _PARTITION.fullmatch(device) is not None


def parse_line(columns: list[str]) -> tuple[float, float, float, float] | Reason:
    """Milliseconds of reads, of writes, busy, and requests in flight; or why a line cannot be used."""
    if len(columns) < _MIN_COLUMNS:
        return "format"
    found = [whole_number(columns[at]) for at in (6, 10, 12, 11)]
    read_ms, write_ms, busy_ms, in_flight = found
    if read_ms is None or write_ms is None or busy_ms is None or in_flight is None:
        return "format"
    if max(read_ms, write_ms, busy_ms) >= _LONGEST_MS or in_flight >= _MOST_IN_FLIGHT:
        return "out_of_range"
    return float(read_ms), float(write_ms), float(busy_ms), float(in_flight)


class DiskCollector(Collector):
    """Reads `/proc/diskstats`; loops, memory and partitions are left out."""

    name = "disk"
    reasons = ("format", "out_of_range", *READ_REASONS)

    def __init__(self, settings: Settings, node: NodeState) -> None:
        super().__init__(settings, node)
        self._rows: tuple[Sample, ...] = ()
        self._absent: Reason | None = None

    def cycle(self) -> None:
        """Reads one file, and a folder name in sys for each device."""
        text = read_text(self.settings[PROCFS] / "diskstats")
        rows: list[Sample] = []
        for line in (text or "").splitlines():
            columns = line.split()
            if len(columns) > 2 and (_SKIPPED.fullmatch(columns[2]) or is_partition(columns[2], self.settings[SYSFS])):
                continue
            found = parse_line(columns)
            if isinstance(found, str):
                self.health.count(found)
            else:
                rows += disk_samples(columns[2], *found)
        self._rows = tuple(rows)
        self._absent = "not_supported" if text is None else None if rows else "not_found"

    def samples(self, fresh: bool, now_s: float) -> Iterable[Sample]:
        """Readings of the last cycle, none when it is stale."""
        if not fresh:
            return
        yield from self._rows
        if self._absent is not None:
            for family in FAMILIES:
                yield Sample(m.FIELD_UNAVAILABLE, ("", "", family.field, self._absent), 1.0)


COLLECTOR = DiskCollector
