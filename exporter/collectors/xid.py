"""XID events from the driver, waited for in a process of their own."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Final

from exporter import metrics as m
from exporter.collector import Collector, NodeState
from exporter.config import Settings, seconds
from exporter.errors import CollectError, Reason
from exporter.readings import Sample, XidBeat, XidEvent
from exporter.xid_feed import DEADLINE, OPTIONS, XidFeed
from exporter.xids import XidCounts, XidLog

RECYCLE_AFTER = seconds(
    "collector.xid.recycle-after",
    60.0,
    "how long a GPU may answer without sending its events before the event process is started anew",
)
_MAX_RECYCLE_S = 600.0
_FIELD: Final = f"{m.GPU_XID_EVENTS.field}/nvml"
_log = logging.getLogger(__name__)


class XidCollector(Collector):
    """Counts what the event process sends; see `exporter.xid_feed`.

    A cycle takes in whatever has come. What the driver delivers, it delivers to who waits: an XID from before the
    process waited, or while it was being replaced, is not among them. The kernel's log has these, in the kmsg
    collector.
    """

    name = "xid"
    reasons = ("driver", "released", "timeout", "unknown_device", "worker")
    options = (*OPTIONS, RECYCLE_AFTER)

    def __init__(self, settings: Settings, node: NodeState) -> None:
        super().__init__(settings, node)
        self.period_s = 0.2
        self.deadline_s = settings[DEADLINE]
        self._feed = XidFeed(settings, lambda: [gpu.slot for gpu in node.inventory.gpus])
        self._counts = XidCounts("nvml", node.xid_times)
        self._events = XidLog("nvml", _log)
        self._registered: frozenset[str] = frozenset()
        self._refused: dict[str, Reason] = {}
        self._ever: frozenset[str] = frozenset()  # UUIDs that were registered once
        self._fell: set[str] = set()  # UUIDs that stopped answering since they were registered
        self._starts = 0  # of the feed when `_fell` was begun
        self._unwatched_since_s: float | None = None
        self._recycle_after_s = settings[RECYCLE_AFTER]

    def cycle(self) -> None:
        """Takes in all waiting beats; raises `CollectError` while there is no process."""
        self._events.flush()
        if self.node.released.is_set():
            self._feed.drop()
            time.sleep(1.0)
            raise CollectError("released", "the operator asked to leave the driver alone")
        for beat in self._feed.beats():
            self._take(beat)
        self._recycle_if_unwatched()

    def _take(self, beat: XidBeat) -> None:
        self._registered, self._refused = frozenset(beat.registered), dict(beat.refused)
        self._ever |= self._registered
        for event in beat.events:
            self._tell(event)
            if event.uuid:
                self._counts.add(event)
            else:
                self.health.count("unknown_device")

    def _tell(self, event: XidEvent) -> None:
        self._events.tell(event.at_s, {"slot": event.slot, "uuid": event.uuid, "xid": event.xid, "gi": event.gi})

    def _recycle_if_unwatched(self) -> None:
        """Starts the process anew for GPUs that answer and do not send their events, ever more rarely."""
        unwatched = self._unwatched()
        now_s = time.monotonic()
        if not unwatched:
            self._unwatched_since_s, self._recycle_after_s = None, self.settings[RECYCLE_AFTER]
        elif self._unwatched_since_s is None:
            self._unwatched_since_s = now_s
        elif now_s - self._unwatched_since_s >= self._recycle_after_s:
            _log.info("the event process is started anew for %s", ", ".join(sorted(unwatched)))
            self._unwatched_since_s, self._recycle_after_s = None, min(_MAX_RECYCLE_S, self._recycle_after_s * 2)
            self._feed.drop()

    def _unwatched(self) -> set[str]:
        """UUIDs of GPUs that answer and whose events, as far as can be known, nobody would see.

        A GPU came after the driver was initialised in the event process, or it had fallen off and came back: nobody
        promises that a registration outlives that.
        """
        if self._feed.starts != self._starts:
            self._starts = self._feed.starts
            self._fell.clear()
        up = {gpu.identity.uuid for gpu in self.node.readings if gpu.down is None}
        down = {gpu.identity.uuid for gpu in self.node.readings if gpu.down not in (None, "suspended")}
        self._fell |= down & self._registered
        hung = {gpu.uuid for gpu in self.node.inventory.gpus if gpu.slot in self._feed.hung_slots}
        return ((up - self._registered) | (up & self._fell)) - self._refused.keys() - hung

    def samples(self, fresh: bool, now_s: float) -> Iterable[Sample]:
        """All counts, also when the process is gone: they are the exporter's own memory.

        A GPU that was never registered has no row at 0: nobody could have seen one.
        """
        gpus = self.node.inventory.gpus
        refused, hung = dict(self._refused), self._feed.hung_slots
        for gpu in gpus:
            why = "timeout" if gpu.slot in hung else refused.get(gpu.uuid)
            if why is not None:
                yield Sample(m.FIELD_UNAVAILABLE, (gpu.uuid, gpu.slot, _FIELD, why), 1.0)
        yield from self._counts.samples(gpu for gpu in gpus if gpu.uuid in self._ever)

    def stop(self) -> None:
        """Ends the event processes and tells what the event record left out."""
        self._feed.stop()
        self._events.flush(last=True)


COLLECTOR = XidCollector
