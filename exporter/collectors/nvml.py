"""Readings of the GPUs, through a process that may hang in the driver without taking the page with it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence

from exporter import metrics as m
from exporter.collector import Collector, NodeState
from exporter.config import Settings, whole
from exporter.driver import DEADLINE, INTERVAL, OPTIONS, Driver
from exporter.errors import CollectError, Reason
from exporter.gpus import count_samples, gpu_samples, place_gpus, worker_samples
from exporter.processes import PROCESS_MEMORY, settle
from exporter.readings import NVML_NEVER_ANSWERED, NVML_SUCCESS, Identity, NvmlSnapshot, Sample

EXPECTED = whole(
    "collector.nvml.expected-gpus", None, "GPUs that this node should have; without it, those ever seen", 0, 1024
)
_log = logging.getLogger(__name__)


class NvmlCollector(Collector):
    """Asks the driver process for one snapshot per cycle; see `exporter.driver`.

    Law: a snapshot is served only if it answered the last request and is not overdue.
    """

    name = "nvml"
    reasons = ("blank", "driver", "gone", "not_written", "out_of_range", "released", "suspect", "timeout", "worker")
    options = (*OPTIONS, EXPECTED, PROCESS_MEMORY)

    def __init__(self, settings: Settings, node: NodeState) -> None:
        super().__init__(settings, node)
        self.period_s = settings[INTERVAL]
        self.deadline_s = settings[DEADLINE]
        self._driver = Driver(settings, lambda: [gpu.slot for gpu in node.inventory.gpus])
        # Of one cycle, replaced together: a GPU that has just come is missing from the snapshot before.
        self._known: tuple[NvmlSnapshot | None, tuple[Identity, ...]] = None, node.inventory.gpus
        self._written = True

    def cycle(self) -> None:
        """Gets one snapshot; raises `CollectError` if the driver, or the process, did not give one."""
        try:
            snapshot = settle(self._ask(), self.settings)
        except CollectError:
            self._known, self.node.readings = (None, self.node.inventory.gpus), ()
            raise
        for reason in snapshot.dropped:
            self.health.count(reason)
        self.node.driver = snapshot.driver
        self._remember(snapshot)
        self.node.readings, self._known = snapshot.gpus, (snapshot, self.node.inventory.gpus)

    def _ask(self) -> NvmlSnapshot:
        if self.node.released.is_set():
            self._driver.drop()
            raise CollectError("released", "the operator asked to leave the driver alone")
        return self._driver.ask()

    def _remember(self, snapshot: NvmlSnapshot) -> None:
        try:
            self.node.inventory.update(gpu.identity for gpu in snapshot.gpus if gpu.down is None)
        except OSError as exc:
            self.health.count("not_written")
            if self._written:
                _log.warning("inventory not written: %s", exc)
            self._written = False
        else:
            self._written = True

    def stalled(self, now_s: float) -> str:
        """A driver that does not answer; one that answers with an error is an answer."""
        silent = self._driver.silent(now_s) or (self._known[0] is None and self._driver.stuck_s(now_s) > 0)
        return "the driver does not answer" if silent else ""

    def samples(self, fresh: bool, now_s: float) -> Iterable[Sample]:
        """Health always; readings of the last snapshot if it is fresh; memory of the GPUs otherwise."""
        driver = self._driver
        yield from worker_samples(driver.stuck_s(now_s), driver.code)
        silent = driver.silent(now_s)
        if self.health.finished_s is None and not silent:
            return
        snapshot, gpus = self._known
        if not fresh or silent:
            snapshot = None
        readings = place_gpus(gpus, snapshot, self._no_answer(now_s), driver.hung_slots)
        known = bool(readings) or snapshot is not None
        nameless = _nameless(snapshot, gpus, driver.hung_slots)
        for reason in sorted(set(nameless)):
            yield Sample(m.FIELD_UNAVAILABLE, ("", "", m.GPU_UP.field, reason), 1.0)
        expected = self.settings[EXPECTED]
        if expected is None and known:
            expected = len(readings) + len(nameless)
        visible = None if snapshot is None else sum(reading.down is None for reading in readings)
        yield from count_samples(expected, visible)
        yield from gpu_samples(readings)

    def _no_answer(self, now_s: float) -> Reason:
        driver = self._driver
        if self.node.released.is_set():
            return "unknown"
        if driver.stuck_s(now_s) > 0:
            return "timeout"
        if driver.code not in (NVML_SUCCESS, NVML_NEVER_ANSWERED):
            return "driver"  # also while it is asked anew
        return "timeout" if driver.waiting else "unknown"

    def stop(self) -> None:
        """Ends the driver processes."""
        self._driver.stop()


def _nameless(
    snapshot: NvmlSnapshot | None, gpus: Sequence[Identity], hung_slots: Collection[str]
) -> tuple[Reason, ...]:
    """Why GPUs do not answer that the driver counts and nobody has ever seen: one reason each, `unknown` where it is
    not clear which of them is which.
    """
    if snapshot is None:
        return ()
    answered = {reading.identity.uuid for reading in snapshot.gpus}
    silent = sum(gpu.uuid not in answered and gpu.slot not in hung_slots for gpu in gpus)
    reasons = {reason for _, reason in snapshot.unidentified}
    why: Reason = next(iter(reasons)) if len(reasons) == 1 else "unknown"
    return (why,) * max(0, len(snapshot.unidentified) - silent)


COLLECTOR = NvmlCollector
