"""XID events from the driver, waited for in a process of their own."""

from __future__ import annotations

import time
from collections.abc import Iterable

from exporter.child import Child
from exporter.collector import Collector, NodeState
from exporter.config import Settings, seconds
from exporter.errors import CollectError, Reason
from exporter.gpus import XidCounts
from exporter.readings import NVML_SUCCESS, Sample, XidBeat

DEADLINE = seconds("collector.xid.deadline", 5.0, "silence of the event process after which it is stuck", lowest=3.0)
_MAX_BACKOFF_S = 30.0


class XidCollector(Collector):
    """Counts what the event process sends; restarts it with a backoff of 1 to 30 s.

    A cycle takes in whatever has come; the process beats at least once a second, so a longer silence means
    that it hangs in the driver. It is then left alone: a process in the driver cannot be ended.
    """

    name = "xid"
    reasons = ("driver", "released", "timeout", "unknown_device", "worker")
    options = (DEADLINE,)

    def __init__(self, settings: Settings, node: NodeState) -> None:
        super().__init__(settings, node)
        self.period_s = 0.2
        self.deadline_s = settings[DEADLINE]
        self._counts = XidCounts("nvml")
        self._child: Child | None = None
        self._heard_s = 0.0
        self._beating = False
        self._retry_at_s = 0.0
        self._backoff_s = 1.0
        self._why: Reason = "worker"

    def cycle(self) -> None:
        """Takes in all waiting beats; raises `CollectError` while there is no process."""
        now_s = time.monotonic()
        if self.node.released.is_set():
            self._drop_child()
            raise CollectError("released", "the operator asked to leave the driver alone")
        if self._child is None:
            if now_s < self._retry_at_s:
                time.sleep(min(1.0, self._retry_at_s - now_s))
                raise CollectError(self._why, "waiting before the event process is started again")
            self._child, self._heard_s, self._beating = Child("events"), now_s, False
        try:
            # The first beat proves that the driver started, so a cycle without it is no success.
            beat = self._child.receive(1.0 if self._beating else self.deadline_s)
            while beat is not None:
                self._take(beat)
                beat = self._child.receive(0.0)
        except CollectError as exc:
            self._restart_later(exc.reason)
            raise
        if not self._beating or time.monotonic() - self._heard_s > self.deadline_s:
            raise CollectError("timeout", "the event process is silent")

    def _take(self, beat: XidBeat) -> None:
        self._heard_s, self._beating = time.monotonic(), True
        if beat.code != NVML_SUCCESS:
            raise CollectError("driver", f"NVML return code {beat.code}")
        self._backoff_s = 1.0
        for event in beat.events:
            if event.uuid:
                self._counts.add(event)
            else:
                self.health.count("unknown_device")

    def _drop_child(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.stop()

    def _restart_later(self, why: Reason) -> None:
        self._why = why
        self._drop_child()
        self._retry_at_s = time.monotonic() + self._backoff_s
        self._backoff_s = min(_MAX_BACKOFF_S, self._backoff_s * 2)

    def samples(self, fresh: bool, now_s: float) -> Iterable[Sample]:
        """All counts, also when the process is gone: they are the exporter's own memory."""
        return self._counts.samples(self.node.inventory.gpus)

    def stop(self) -> None:
        """Ends the event process."""
        if self._child is not None:
            self._child.stop()


COLLECTOR = XidCollector
