"""The process that waits for XIDs, as the one that serves HTTP sees it.

It beats at least once a second; one that is silent hangs in the driver. As with the snapshots (`exporter.driver`) it is
then left alone, and after a while one other is started beside it that leaves out the GPU whose registration hangs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from exporter.child import Child
from exporter.config import Option, Settings, seconds
from exporter.errors import CollectError, Reason
from exporter.readings import NVML_SUCCESS, Asking, XidBeat, nvml_words

DEADLINE = seconds("collector.xid.deadline", 5.0, "silence of the event process after which it is stuck", lowest=3.0)
REPLACE_AFTER = seconds(
    "collector.xid.replace-after",
    60.0,
    "silence of a stuck event process after which one replacement is started",
    lowest=3.0,
)
REGISTER_INTERVAL = seconds(
    "collector.xid.register-interval", 30.0, "how often the events of GPUs that came later are asked for"
)
OPTIONS: tuple[Option[float], ...] = (DEADLINE, REPLACE_AFTER, REGISTER_INTERVAL)
_MAX_BACKOFF_S = 30.0
_BEAT_S = 1.0
_MOST_MESSAGES = 10_000  # in one cycle, so that it ends in a storm too
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Stuck:
    """A process that was given up: it ends when its driver call returns.

    Attributes:
        child: the process.
        slot: the GPU that it was registering; "" if it was waiting, or starting the driver.
    """

    child: Child
    slot: str


class XidFeed:
    """Beats of the event process.

    Laws: at most two processes are alive, and a second only beside a stuck one; no process is killed; after one that
    failed, the next is started 1 s later, then 2, and so on up to 30.

    Args:
        settings: deadlines.
        known_slots: gives the GPUs of the inventory, by slot.
    """

    def __init__(self, settings: Settings, known_slots: Callable[[], Iterable[str]]) -> None:
        self._settings = settings
        self._known_slots = known_slots
        self._child: Child | None = None
        self._started_s = self._heard_s = 0.0
        self._beating = False  # whether the child has beaten yet
        self._asking = ""  # the GPU that it said it registers now
        self._partial = False  # whether it leaves a GPU out
        self._stuck: list[_Stuck] = []
        self._retry_at_s = 0.0
        self._backoff_s = 1.0
        self._why: Reason = "worker"
        self.starts = 0
        """How many processes were started so far: each registers all GPUs anew."""

    def beats(self) -> Iterator[XidBeat]:
        """All beats that have come; waits up to a second for one.

        Raises:
            CollectError: the process is silent or gone, the driver fails, or it is not yet time for the next process.
        """
        self._forget_ended()
        child = self._child or self._start()
        wait_s = _BEAT_S
        try:
            for _ in range(_MOST_MESSAGES):
                # The first beat proves that the driver started, so a cycle without it is no success.
                message = child.receive(wait_s if self._beating else self._settings[DEADLINE])
                if message is None:
                    break
                wait_s, self._heard_s = 0.0, time.monotonic()
                if isinstance(message, Asking):
                    self._asking = message.slot
                else:
                    yield self._checked(message)
        except CollectError as exc:
            self._restart_later(exc.reason)
            raise
        self._check_silence(child)

    def _checked(self, beat: XidBeat) -> XidBeat:
        if beat.code != NVML_SUCCESS:
            raise CollectError("driver", nvml_words(beat.code))
        self._beating = True
        if self._heard_s - self._started_s > self._backoff_s:
            self._backoff_s = 1.0  # a set that breaks at once, again and again, is not built ever faster
        return beat

    def _check_silence(self, child: Child) -> None:
        silent_s = time.monotonic() - self._heard_s
        if self._beating and silent_s <= self._settings[DEADLINE]:
            return
        whom = f" for GPU {self._asking}" if self._asking else ""
        if silent_s > self._settings[REPLACE_AFTER] and not self._stuck:
            _log.warning("event process %d is silent%s; one replacement is started", child.pid, whom)
            child.abandon()
            self._stuck.append(_Stuck(child, self._asking))
            self._child = None
        raise CollectError("timeout", f"the event process is silent{whom}")

    def _start(self) -> Child:
        now_s = time.monotonic()
        if now_s < self._retry_at_s:
            time.sleep(min(_BEAT_S, self._retry_at_s - now_s))
            raise CollectError(self._why, "waiting before the event process is started again")
        if len(self._stuck) > 1:
            time.sleep(_BEAT_S)
            raise CollectError("timeout", "two event processes hang; no third is started")
        hung = self.hung_slots
        rest = [slot for slot in self._known_slots() if slot not in hung] if hung else []
        options = [f"--register-interval={self._settings[REGISTER_INTERVAL]}", *(f"--slot={slot}" for slot in rest)]
        self._child, self._partial = Child("events", options), bool(rest)
        self.starts += 1
        self._started_s = self._heard_s = now_s
        self._beating, self._asking = False, ""
        return self._child

    def _forget_ended(self) -> None:
        """Lets go of stuck processes that have ended; with the last one goes the reason to leave a GPU out."""
        self._stuck = [stuck for stuck in self._stuck if stuck.child.alive()]
        if self._partial and not self.hung_slots:
            _log.info("the stuck event process has ended; all GPUs are registered again")
            self.drop()

    def _restart_later(self, why: Reason) -> None:
        self._why = why
        self.drop()
        self._retry_at_s = time.monotonic() + self._backoff_s
        self._backoff_s = min(_MAX_BACKOFF_S, self._backoff_s * 2)

    @property
    def hung_slots(self) -> frozenset[str]:
        """GPUs whose registration hangs while another process waits for the events of the rest."""
        return frozenset(stuck.slot for stuck in self._stuck if stuck.slot)

    def drop(self) -> None:
        """Ends the present process; one that cannot end counts as stuck."""
        child, self._child = self._child, None
        self._partial = False
        if child is not None and not child.stop():
            self._stuck.append(_Stuck(child, self._asking))

    def stop(self) -> None:
        """Ends all processes that can be ended."""
        for child in (self._child, *(stuck.child for stuck in self._stuck)):
            if child is not None:
                child.stop()
