"""Readings of the GPUs, through a process that may hang in the driver without taking the page with it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from exporter.child import Child
from exporter.collector import Collector, NodeState
from exporter.config import SYSFS, Settings, seconds, switch
from exporter.errors import CollectError, Reason
from exporter.gpus import count_samples, gpu_samples, place_gpus, worker_samples
from exporter.processes import PROCESS_MEMORY, settle
from exporter.readings import NVML_NEVER_ANSWERED, NVML_SUCCESS, NvmlSnapshot, Sample

INTERVAL = seconds("collector.nvml.interval", 5.0, "driver cycle", lowest=1.0)
DEADLINE = seconds("collector.nvml.deadline", 5.0, "silence of the driver after which it counts as stuck")
SLOW_INTERVAL = seconds("collector.nvml.slow-interval", 30.0, "cycle of counters and limits", lowest=1.0)
STATIC_INTERVAL = seconds(
    "collector.nvml.static-interval", 600.0, "cycle of identities and of what the driver refused for good", lowest=1.0
)
REPLACE_AFTER = seconds(
    "collector.nvml.replace-after",
    60.0,
    "age of a stuck driver process at which one replacement is started",
    lowest=1.0,
)
RECYCLE_AFTER = seconds(
    "collector.nvml.recycle-after",
    60.0,
    "age of a driver process that misses a GPU at which it is started anew",
    lowest=1.0,
)
SKIP_SUSPENDED = switch(
    "collector.nvml.skip-suspended",
    False,
    "leave alone a GPU that the kernel has suspended, since a question would wake it; its state is then unknown",
)
_MAX_BACKOFF_S = 30.0
_MAX_RECYCLE_S = 600.0
_log = logging.getLogger(__name__)


class _TooEarlyError(CollectError):
    """There is no driver process and it is not yet time for the next one."""


class NvmlCollector(Collector):
    """Asks the driver process for one snapshot per cycle, under a deadline.

    Laws: at most two driver processes are alive, and a second only beside a stuck one; a snapshot is served
    only if it answered the last request.
    """

    name = "nvml"
    reasons = ("blank", "driver", "gone", "out_of_range", "suspect", "timeout", "worker")
    options = (
        *(INTERVAL, DEADLINE, SLOW_INTERVAL, STATIC_INTERVAL, REPLACE_AFTER, RECYCLE_AFTER, SKIP_SUSPENDED),
        PROCESS_MEMORY,
    )

    def __init__(self, settings: Settings, node: NodeState) -> None:
        super().__init__(settings, node)
        self.period_s = settings[INTERVAL]
        self.deadline_s = settings[DEADLINE]
        self._child: Child | None = None
        self._child_started_s = 0.0
        self._abandoned: list[Child] = []
        self._number = 0
        self._asked_s = 0.0  # monotonic time of the last request
        self._overdue = False  # whether its answer has missed the deadline
        self._silent_since_s: float | None = None  # monotonic time of the first request without an answer
        self._retry_at_s = 0.0
        self._failures = 0
        self._recycle_after_s = settings[RECYCLE_AFTER]
        self._snapshot: NvmlSnapshot | None = None
        self._code = NVML_NEVER_ANSWERED

    def cycle(self) -> None:
        """Gets one snapshot; raises `CollectError` if the driver, or the process, did not give one."""
        try:
            self._snapshot = snapshot = settle(self._ask(), self.settings)
        except CollectError:
            self._snapshot = None
            raise
        self._code = snapshot.code
        for reason in snapshot.dropped:
            self.health.count(reason)
        if snapshot.code != NVML_SUCCESS:
            self._drop_child()
            self._back_off()
            raise CollectError("driver", f"NVML return code {snapshot.code}")
        self._failures = 0
        self.node.driver = snapshot.driver
        try:
            self.node.inventory.update(gpu.identity for gpu in snapshot.gpus if gpu.down is None)
        except OSError as exc:
            _log.warning("inventory not written: %s", exc)
        self._recycle_if_short(snapshot)

    def _ask(self) -> NvmlSnapshot:
        """One request, one answer, under the deadline; raises `CollectError`."""
        self._abandoned = [child for child in self._abandoned if child.alive()]
        try:
            if self._overdue:
                self._await_late_answer()
            child = self._child or self._start_child()
            self._number += 1
            self._asked_s = time.monotonic()
            if self._silent_since_s is None:
                self._silent_since_s = self._asked_s
            child.send(self._number)
            answer = child.receive(self.deadline_s)
        except _TooEarlyError:
            raise
        except CollectError as exc:
            if exc.reason == "worker":
                self._drop_child()
                self._back_off()
            raise
        if answer is None:
            self._overdue = True
            raise CollectError("timeout", "the driver does not answer")
        self._silent_since_s = None
        number, snapshot = answer
        assert number == self._number and isinstance(snapshot, NvmlSnapshot)
        return snapshot

    def _await_late_answer(self) -> None:
        """Waits for the answer that is overdue, and throws it away: half of it was read before the hang.

        A process that stays silent for long gets one replacement beside it.

        Raises:
            CollectError: it is still overdue.
        """
        child = self._child
        assert child is not None
        if child.receive(self.deadline_s) is not None:
            self._overdue = False
            return
        if time.monotonic() - self._asked_s < self.settings[REPLACE_AFTER] or self._abandoned:
            raise CollectError("timeout", "the driver does not answer")
        _log.warning("driver process %d does not answer; one replacement is started", child.pid)
        child.abandon()
        self._abandoned.append(child)
        self._child, self._overdue = None, False

    def _start_child(self) -> Child:
        now_s = time.monotonic()
        if now_s < self._retry_at_s:
            reason: Reason = "driver" if self._code > NVML_SUCCESS else "worker"
            raise _TooEarlyError(reason, "waiting before the driver process is started again")
        if len(self._abandoned) > 1:
            raise _TooEarlyError("timeout", "two driver processes hang; no third is started")
        options = [
            f"--slow-interval={self.settings[SLOW_INTERVAL]}",
            f"--static-interval={self.settings[STATIC_INTERVAL]}",
        ]
        if self.settings[SKIP_SUSPENDED]:
            options.append(f"--skip-suspended={self.settings[SYSFS] / 'bus' / 'pci' / 'devices'}")
        self._child = Child("snapshots", options)
        self._child_started_s = now_s
        return self._child

    def _drop_child(self) -> None:
        child, self._child, self._overdue = self._child, None, False
        self._silent_since_s = None
        if child is not None and not child.stop():
            self._abandoned.append(child)

    def _back_off(self) -> None:
        delay_s = min(_MAX_BACKOFF_S, self.period_s * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
        # Half a period early, or the jitter of the cycle would make each wait one period longer.
        self._retry_at_s = time.monotonic() + delay_s - self.period_s / 2

    def _recycle_if_short(self, snapshot: NvmlSnapshot) -> None:
        """Starts the process anew when a GPU is missing: one that came back needs a new initialisation.

        Ever more rarely, since an initialisation can take seconds in which nothing is read.
        """
        if not snapshot.unidentified and all(gpu.down in (None, "suspended") for gpu in snapshot.gpus):
            self._recycle_after_s = self.settings[RECYCLE_AFTER]
        elif time.monotonic() - self._child_started_s >= self._recycle_after_s:
            self._recycle_after_s = min(_MAX_RECYCLE_S, self._recycle_after_s * 2)
            self._drop_child()

    def stuck_s(self, now_s: float) -> float:
        """How long the driver has been silent; 0 while within the deadline."""
        since_s = self._silent_since_s
        silent_s = 0.0 if since_s is None else now_s - since_s
        return silent_s if silent_s > self.deadline_s else 0.0

    def stalled(self, now_s: float) -> str:
        """A driver that does not answer; one that answers with an error is an answer."""
        return "the driver does not answer" if self.stuck_s(now_s) else ""

    def samples(self, fresh: bool, now_s: float) -> Iterable[Sample]:
        """Health always; readings of the last snapshot if it is fresh; memory of the GPUs otherwise."""
        stuck_s = self.stuck_s(now_s)
        yield from worker_samples(stuck_s, self._code)
        if self.health.finished_s is None and not stuck_s:
            return
        snapshot = self._snapshot if fresh and not stuck_s else None
        readings = place_gpus(self.node.inventory.gpus, snapshot, self._no_answer(stuck_s))
        known = bool(readings) or snapshot is not None
        visible = None if snapshot is None else sum(reading.down is None for reading in readings)
        yield from count_samples(len(readings) if known else None, visible)
        yield from gpu_samples(readings)

    def _no_answer(self, stuck_s: float) -> Reason:
        if stuck_s or self._silent_since_s is not None:
            return "timeout"
        if self._code not in (NVML_SUCCESS, NVML_NEVER_ANSWERED):
            return "driver"
        return "unknown"

    def stop(self) -> None:
        """Ends the driver processes."""
        for child in (self._child, *self._abandoned):
            if child is not None:
                child.stop()


COLLECTOR = NvmlCollector
