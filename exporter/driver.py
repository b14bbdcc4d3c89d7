"""The driver processes of one node, as the one that serves HTTP sees them.

A call into a hung driver cannot be ended from outside. So the calls are made in a child, under a deadline; a child
past it is left alone, and after a while another is started beside it that touches every GPU but the one that hangs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from exporter.child import Child
from exporter.config import SYSFS, Option, Settings, seconds, switch, whole
from exporter.errors import CollectError, Reason
from exporter.readings import NVML_NEVER_ANSWERED, NVML_SUCCESS, Asking, NvmlSnapshot, nvml_words

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
    "least age at which a driver process is started anew, because it misses a GPU or has grown",
    lowest=1.0,
)
RECYCLE_MEGABYTES = whole(
    "collector.nvml.recycle-megabytes", 256, "resident memory at which a driver process is started anew", 1, 1_000_000
)
SKIP_SUSPENDED = switch(
    "collector.nvml.skip-suspended",
    False,
    "leave alone a GPU that the kernel has suspended, since a question would wake it; its state is then unknown",
)
OPTIONS: tuple[Option[Any], ...] = (
    INTERVAL,
    DEADLINE,
    SLOW_INTERVAL,
    STATIC_INTERVAL,
    REPLACE_AFTER,
    RECYCLE_AFTER,
    RECYCLE_MEGABYTES,
    SKIP_SUSPENDED,
)
_MAX_BACKOFF_S = 30.0
_MAX_RECYCLE_S = 600.0
_log = logging.getLogger(__name__)


class TooEarlyError(CollectError):
    """There is no driver process and it is not yet time for the next one."""


@dataclass(frozen=True, slots=True)
class _Stuck:
    """A process that was given up: it ends when its driver call returns.

    Attributes:
        child: the process.
        slot: the GPU it was asking; "" if it was asking the driver as a whole.
        since_s: monotonic time of the request that it never answered.
    """

    child: Child
    slot: str
    since_s: float


class Driver:
    """Answers one request per cycle from the driver processes.

    Laws: at most two processes are alive, and a second only beside a stuck one; an answer is given only if it is the
    answer to the last request; no process is killed.

    Args:
        settings: intervals and deadlines.
        known_slots: gives the GPUs of the inventory, by slot.
    """

    def __init__(self, settings: Settings, known_slots: Callable[[], Iterable[str]]) -> None:
        self._settings = settings
        self._known_slots = known_slots
        self._child: Child | None = None
        self._child_started_s = 0.0
        self._partial = False  # whether the child leaves a GPU out
        self._stuck: list[_Stuck] = []
        self._number = 0
        self._asked_s = 0.0  # monotonic time of the last request
        self._asking = ""  # the GPU that the child said it asks now
        self._overdue = False  # whether the answer to the last request has missed the deadline
        self._silent_since_s: float | None = None  # monotonic time of the first request without an answer
        self._retry_at_s = 0.0
        self._failures = 0
        self._recycle_after_s = settings[RECYCLE_AFTER]
        self.code = NVML_NEVER_ANSWERED

    def ask(self) -> NvmlSnapshot:
        """One request, one answer, under the deadline.

        Raises:
            CollectError: the driver gave no answer in time, or there is no process to ask.
        """
        self._forget_ended()
        try:
            if self._overdue:
                self._await_late_answer()
            child = self._child or self._start()
            self._number += 1
            self._asked_s, self._asking = time.monotonic(), ""
            if self._silent_since_s is None:
                self._silent_since_s = self._asked_s
            child.send(self._number)
            snapshot = self._receive(child)
        except TooEarlyError:
            raise
        except CollectError as exc:
            if exc.reason == "worker":
                self.drop()
                self._back_off()
            raise
        if snapshot is None:
            self._overdue = True
            raise CollectError("timeout", f"the driver does not answer{self._whom()}")
        self._silent_since_s = None
        if snapshot.code != NVML_SUCCESS:
            self.drop()  # it takes a while, in which the page says what it said
            self.code = snapshot.code
            self._back_off()
            raise CollectError("driver", nvml_words(snapshot.code))
        self.code, self._failures = snapshot.code, 0
        self._recycle_if_due(snapshot)
        return snapshot

    def _whom(self) -> str:
        return f" for GPU {self._asking}" if self._asking else ""

    def _receive(self, child: Child) -> NvmlSnapshot | None:
        """The answer to the last request, None if it does not come within the deadline."""
        end_s = time.monotonic() + self._settings[DEADLINE]
        while True:
            message = child.receive(end_s - time.monotonic())
            if message is None:
                return None
            if isinstance(message, Asking):
                self._asking = message.slot
                continue
            number, snapshot = message
            assert number == self._number and isinstance(snapshot, NvmlSnapshot)
            return snapshot

    def _await_late_answer(self) -> None:
        """Waits for the answer that is overdue, and throws it away: half of it was read before the hang.

        A process that stays silent for long gets one replacement beside it, which leaves out the GPU that hangs.

        Raises:
            CollectError: it is still overdue.
        """
        child = self._child
        assert child is not None
        if self._receive(child) is not None:
            self._overdue = False
            return
        if time.monotonic() - self._asked_s < self._settings[REPLACE_AFTER] or self._stuck:
            raise CollectError("timeout", f"the driver does not answer{self._whom()}")
        _log.warning("driver process %d does not answer%s; one replacement is started", child.pid, self._whom())
        child.abandon()
        self._stuck.append(_Stuck(child, self._asking, self._silent_since_s or self._asked_s))
        self._child, self._overdue, self._silent_since_s = None, False, None

    def _forget_ended(self) -> None:
        """Lets go of stuck processes that have ended; with the last one goes the reason to leave a GPU out."""
        self._stuck = [stuck for stuck in self._stuck if stuck.child.alive()]
        if self._partial and not self.hung_slots:
            _log.info("the stuck driver process has ended; all GPUs are asked again")
            self.drop()

    def _start(self) -> Child:
        now_s = time.monotonic()
        if now_s < self._retry_at_s:
            reason: Reason = "driver" if self.code > NVML_SUCCESS else "worker"
            raise TooEarlyError(reason, "waiting before the driver process is started again")
        if len(self._stuck) > 1:
            raise TooEarlyError("timeout", "two driver processes hang; no third is started")
        hung = self.hung_slots
        rest = [slot for slot in self._known_slots() if slot not in hung] if hung else []
        options = [
            f"--slow-interval={self._settings[SLOW_INTERVAL]}",
            f"--static-interval={self._settings[STATIC_INTERVAL]}",
            *(f"--slot={slot}" for slot in rest),
        ]
        if self._settings[SKIP_SUSPENDED]:
            options.append(f"--skip-suspended={self._settings[SYSFS] / 'bus' / 'pci' / 'devices'}")
        self._child, self._partial = Child("snapshots", options), bool(rest)
        self._child_started_s = now_s
        return self._child

    def drop(self) -> None:
        """Ends the present process; one that cannot end counts as stuck."""
        child, self._child = self._child, None
        since_s = self._silent_since_s
        self._overdue, self._partial, self._silent_since_s = False, False, None
        if child is not None and not child.stop():
            self._stuck.append(_Stuck(child, self._asking, since_s or time.monotonic()))

    def _back_off(self) -> None:
        period_s = self._settings[INTERVAL]
        delay_s = min(_MAX_BACKOFF_S, period_s * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
        # Half a period early, or the jitter of the cycle would make each wait one period longer.
        self._retry_at_s = time.monotonic() + delay_s - period_s / 2

    def _recycle_if_due(self, snapshot: NvmlSnapshot) -> None:
        """Starts the process anew when it has grown, or misses a GPU: one that came back needs a new initialisation,
        whether it was lost since the last one or not there yet.

        For a missing GPU ever more rarely, since an initialisation can take seconds in which nothing is read.
        """
        child, age_s = self._child, time.monotonic() - self._child_started_s
        assert child is not None
        counted = {gpu.identity.slot for gpu in snapshot.gpus} | self.hung_slots
        if counted.issuperset(self._known_slots()) and not _misses(snapshot):
            self._recycle_after_s = self._settings[RECYCLE_AFTER]
        elif age_s >= self._recycle_after_s:
            self._recycle_after_s = min(_MAX_RECYCLE_S, self._recycle_after_s * 2)
            self.drop()
            return
        limit_bytes = (self._settings[RECYCLE_MEGABYTES] or 0) * 10**6
        grown_bytes = child.resident_bytes()
        if age_s >= self._settings[RECYCLE_AFTER] and grown_bytes > limit_bytes:
            _log.warning("driver process %d holds %d MB and is started anew", child.pid, grown_bytes // 10**6)
            self.drop()

    @property
    def hung_slots(self) -> frozenset[str]:
        """GPUs in whose calls a process hangs while another asks the rest."""
        return frozenset(stuck.slot for stuck in self._stuck if stuck.slot)

    def silent(self, now_s: float) -> bool:
        """Whether the last request has gone without an answer for longer than the deadline."""
        since_s = self._silent_since_s
        return since_s is not None and now_s - since_s > self._settings[DEADLINE]

    @property
    def waiting(self) -> bool:
        """Whether there is a request without an answer, overdue or not."""
        return self._silent_since_s is not None

    def stuck_s(self, now_s: float) -> float:
        """How long the oldest unanswered driver call has lasted; 0 while none is overdue."""
        since_s = [stuck.since_s for stuck in self._stuck]
        if self.silent(now_s):
            since_s.append(self._silent_since_s or now_s)
        return max(0.0, now_s - min(since_s)) if since_s else 0.0

    def stop(self) -> None:
        """Ends all processes that can be ended."""
        for child in (self._child, *(stuck.child for stuck in self._stuck)):
            if child is not None:
                child.stop()


def _misses(snapshot: NvmlSnapshot) -> bool:
    """Whether a GPU that the driver counts does not answer."""
    return bool(snapshot.unidentified) or any(gpu.down not in (None, "suspended") for gpu in snapshot.gpus)
