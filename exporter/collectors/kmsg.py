"""XIDs from the kernel's log, which sees what the driver's event interface misses: a GPU that falls off the bus.

What counts as "since the exporter started": a record that was not there yet when the log was first read to its end.
Older ones give the time of the last event alone. Counted again by every restart, they would be false events to
`increase()`, as soon as the ring buffer had lost some of them and the count of a later start came out lower.
"""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final

from exporter import metrics as m
from exporter.collector import Collector, NodeState
from exporter.config import Settings, path
from exporter.errors import CollectError, Reason
from exporter.kmsg import KmsgFile, parse_record
from exporter.readings import Sample, XidEvent
from exporter.xid_line import XidReader, XidRecord, parse_line
from exporter.xids import XidCounts, XidLog

PATH = path("collector.kmsg.path", Path("/dev/kmsg"), "the kernel's log device", "FILE")

_BEGINNINGS: Final = ("NVRM:", "nvidia-nvswitch")
"""How a message of the driver begins; what merely quotes one further on is somebody else's."""
_KERNEL = 0
_WAIT_S = 1.0
_MOST_READS = 20_000
_RETRY_S = 30.0
_UNKNOWN_AFTER_S = 60.0
"""Age at which an XID of a slot without a GPU is counted as such. It is kept all the same."""
_WHY_NOT_OPEN: Final[dict[int, Reason]] = {
    errno.ENOENT: "not_supported",
    errno.ENODEV: "not_supported",
    errno.ENXIO: "not_supported",
    errno.EACCES: "no_permission",  # the device file is root's
    errno.EPERM: "no_permission",  # kernel.dmesg_restrict without CAP_SYSLOG
}
_FIELD: Final = f"{m.GPU_XID_EVENTS.field}/kmsg"
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Waiting:
    """XIDs of a slot whose GPU is not known yet.

    Attributes:
        at_s: Unix time of the last.
        since_s: monotonic time at which the first came.
        seen: how many.
        count: how many of them since the start.
        told: how many of them were counted as of an unknown device.
    """

    at_s: float
    since_s: float
    seen: int = 0
    count: int = 0
    told: int = 0


class KmsgCollector(Collector):
    """Follows `/dev/kmsg`; a node without it, or without the permission, is not an error.

    Laws: no XID is left out, whatever its number, and none is counted twice; one of a slot whose GPU is not known yet
    is kept until it is. Records that a process wrote are not the kernel's word and are passed over.
    """

    name = "kmsg"
    reasons = ("format", "overwritten", "unknown", "unknown_device")
    options = (PATH,)

    def __init__(self, settings: Settings, node: NodeState) -> None:
        super().__init__(settings, node)
        self.period_s = 0.2
        self._counts = XidCounts("kmsg", node.xid_times)
        self._events = XidLog("kmsg", _log)
        self._reader = XidReader()
        self._file: KmsgFile | None = None
        self._was_read = False  # whether it ever was: until then, no row may say 0
        self._retry_at_s = 0.0
        self._why: Reason | None = None  # why there is no source
        self._sequence = -1  # of the last record
        self._following = False  # whether the log has been read to its end once
        self._looked_s = 0.0  # Unix time at which there was nothing more to read
        self._uuid_by_slot: dict[str, str] = {}  # as the kernel stated it
        self._waiting: dict[tuple[str, int], _Waiting] = {}
        self._lock = Lock()  # around `_waiting`, which a scrape settles too

    def cycle(self) -> None:
        """Takes in what the log has; waits up to a second for something new."""
        file = self._file
        if file is None:
            file = self._open()
            if file is None:
                return
        elif self._following:
            file.wait(_WAIT_S)
        began_s = time.time()
        try:
            lines, finished = file.lines(_MOST_READS)
        except OSError as exc:
            self._close()
            self._retry_at_s = time.monotonic() + _WAIT_S  # nothing is lost: the kernel keeps what was not read yet
            raise CollectError("unknown", f"{self.settings[PATH]}: {exc}") from exc
        self._was_read = True
        for line in lines:
            self._read(line)
        with self._lock:
            self._settle()
        if finished:
            self._following, self._looked_s = True, began_s
        self._events.flush()

    def _open(self) -> KmsgFile | None:
        """Opens the device; None, with the reason, while this node has none to read.

        Raises:
            CollectError: it failed for another reason than that.
        """
        wait_s = self._retry_at_s - time.monotonic()
        if wait_s > 0:
            if self._why is not None:
                return None
            time.sleep(min(_WAIT_S, wait_s))
            raise CollectError("unknown", "waiting before the kernel's log is opened again")
        try:
            self._file = KmsgFile(self.settings[PATH])
        except OSError as exc:
            self._retry_at_s = time.monotonic() + _RETRY_S
            why = _WHY_NOT_OPEN.get(exc.errno or 0)
            if why != self._why:
                _log.info("no XIDs from the kernel's log: %s", exc)
            self._why = why
            if why is None:
                raise CollectError("unknown", str(exc)) from exc
            return None
        self._why = None
        return self._file

    def _read(self, line: bytes) -> None:
        """Takes in one record."""
        record = parse_record(line)
        if record is None:
            self.health.count("format")
            return
        if record.sequence <= self._sequence:
            return  # known from before the device was opened again
        if 0 <= self._sequence < record.sequence - 1:
            self.health.count("overwritten", record.sequence - 1 - self._sequence)
        self._sequence = record.sequence
        if record.facility != _KERNEL or not record.text.startswith(_BEGINNINGS):
            return
        found = self._reader.read(record.text, record.since_boot_s)
        if not found and record.text.startswith("NVRM: Xid ") and parse_line(record.text) is None:
            self.health.count("format")
        for event in found:
            self._take(event, self._unix_s(record.since_boot_s))

    def _unix_s(self, since_boot_s: float) -> float:
        """Unix time of a record.

        The kernel's log clock is not corrected like the others and drifts from them, by minutes over months. A record
        that was not there at the last look was written after it, so its time is known better than that.
        """
        now_s = time.time()
        at_s = now_s - time.monotonic() + since_boot_s
        return min(max(at_s, self._looked_s), now_s)

    def _take(self, record: XidRecord, at_s: float) -> None:
        """Takes in one event of the log."""
        if record.uuid is not None:
            self._uuid_by_slot[record.slot] = record.uuid
            return
        if self._following:
            self._tell(record, at_s)
        if record.xid is None:
            return  # of a switch, which has no row among the GPUs
        with self._lock:
            waiting = self._waiting.setdefault((record.slot, record.xid), _Waiting(at_s, time.monotonic()))
            waiting.seen += 1
            waiting.count += self._following
            waiting.at_s = max(waiting.at_s, at_s)

    def _tell(self, record: XidRecord, at_s: float) -> None:
        fields = {
            "slot": record.slot,
            "uuid": self._uuid(record.slot),
            "xid": record.xid,
            "sxid": record.sxid,
            "form": "words" if record.what == "fall" else None,
            "caused_by": record.caused_by,
            "unit": record.unit,
            "severity": record.severity,
            "link": record.link,
            "status": ",".join(f"{word:#x}" for word in record.words),
            "injected": "true" if record.injected else None,
            "gi": record.gi,
            "ci": record.ci,
            "pid": record.pid,
            "process": record.process,
        }
        self._events.tell(at_s, fields, logging.INFO if record.severity == "nonfatal" else logging.WARNING)

    def _uuid(self, slot: str) -> str:
        """UUID of the GPU in a slot, "" while nobody knows: as the kernel stated it, or from the inventory."""
        stated = self._uuid_by_slot.get(slot)
        if stated is not None:
            return stated
        return next((gpu.uuid for gpu in self.node.inventory.gpus if gpu.slot == slot), "")

    def _settle(self) -> None:
        """Gives the waiting XIDs of known GPUs to these; counts those that have waited for long."""
        for (slot, xid), waiting in list(self._waiting.items()):
            uuid = self._uuid(slot)
            if uuid:
                self._counts.add(XidEvent(uuid, slot, xid, waiting.at_s), waiting.count)
                del self._waiting[slot, xid]
            elif waiting.seen > waiting.told and time.monotonic() - waiting.since_s > _UNKNOWN_AFTER_S:
                self.health.count("unknown_device", waiting.seen - waiting.told)
                waiting.told = waiting.seen

    def samples(self, fresh: bool, now_s: float) -> Iterable[Sample]:
        """All counts, also when the log cannot be read any more: they are the exporter's own memory."""
        why = self._why
        if why is None and not self._was_read and self.health.finished_s is not None:
            why = "unknown"
        if why is not None:
            yield Sample(m.FIELD_UNAVAILABLE, ("", "", _FIELD, why), 1.0)
        with self._lock:
            self._settle()
        yield from self._counts.samples(self.node.inventory.gpus if self._was_read else ())

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def stop(self) -> None:
        """Closes the device and tells what the event record left out."""
        self._close()
        self._events.flush(last=True)


COLLECTOR = KmsgCollector
