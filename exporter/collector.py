"""What a collector is, and how its health is told."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Any, ClassVar

from exporter import metrics as m
from exporter.config import Option, Settings
from exporter.errors import Reason
from exporter.inventory import Inventory
from exporter.readings import GpuReading, Sample
from exporter.xids import XidTimes


@dataclass(slots=True)
class NodeState:
    """What collectors of one node tell each other.

    Attributes:
        inventory: GPUs the node should have; written by the nvml collector alone.
        driver: driver version, "" while unknown.
        released: set while the operator wants the driver left alone, to reset a GPU or to reload the driver.
        readings: the GPUs of the last good driver cycle, () while there is none; replaced whole, never changed.
        xid_times: when each XID was last seen, by any source.
    """

    inventory: Inventory
    driver: str = ""
    released: Event = field(default_factory=Event)
    readings: tuple[GpuReading, ...] = ()
    xid_times: XidTimes = field(default_factory=XidTimes)


@dataclass(slots=True)
class Health:
    """How a collector fares; every field may be read from another thread.

    Attributes:
        name: the collector.
        last_success_s: Unix time, None before the first success.
        duration_s: of the last finished cycle, None before the first.
        finished_s: monotonic end of the last finished cycle, None before the first.
        succeeded: whether that cycle succeeded.
        errors: failed cycles and dropped values by reason.
    """

    name: str
    last_success_s: float | None = None
    duration_s: float | None = None
    finished_s: float | None = None
    succeeded: bool = False
    errors: dict[Reason, int] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def count(self, reason: Reason, times: int = 1) -> None:
        """Counts one failed cycle or dropped value, or several."""
        with self._lock:
            self.errors[reason] = self.errors.get(reason, 0) + times

    def counts(self) -> dict[Reason, int]:
        """A copy of `errors` that no other thread changes."""
        with self._lock:
            return dict(self.errors)


def health_samples(health: Health, fresh: bool) -> Iterator[Sample]:
    """The lines about one collector; `fresh` is False when its last cycle failed or is overdue."""
    key = (health.name,)
    if health.finished_s is not None:
        yield Sample(m.COLLECT_SUCCESS, key, 1.0 if fresh else 0.0)
    if health.last_success_s is not None:
        yield Sample(m.COLLECT_LAST_SUCCESS, key, health.last_success_s)
    if health.duration_s is not None:
        yield Sample(m.COLLECT_DURATION, key, health.duration_s)
    for reason, count in sorted(health.counts().items()):
        yield Sample(m.COLLECT_ERRORS, (*key, reason), float(count))


class Collector(ABC):
    """One source of samples, in a thread of its own.

    `cycle` does the work, off the scrape path; `samples` says what is known, without any I/O, so that a page
    is never late because a source is.

    Attributes:
        name: value of the `collector` label; equals the module's name.
        reasons: reasons it can count; their rows stand on the page at 0 from the start, so that `increase()`
            sees the first error.
        options: its settings, named `collector.NAME.…`; flags, variables and keys of the file come from here.
        enabled: whether it runs when the operator says neither `--collector.NAME` nor `--no-collector.NAME`.
        period_s: time from the start of one cycle to the start of the next.
        deadline_s: a cycle that takes longer makes the last one stale.
    """

    name: ClassVar[str]
    reasons: ClassVar[tuple[Reason, ...]]
    options: ClassVar[tuple[Option[Any], ...]] = ()
    enabled: ClassVar[bool] = True

    def __init__(self, settings: Settings, node: NodeState) -> None:
        self.settings = settings
        self.node = node
        self.period_s = 5.0
        self.deadline_s = 5.0
        self.health = Health(self.name, errors=dict.fromkeys((*self.reasons, "internal"), 0))

    @abstractmethod
    def cycle(self) -> None:
        """Reads the source once.

        Raises:
            CollectError: the source exists and could not be read. A source that this machine does not have is
                no error: it is a `FIELD_UNAVAILABLE` sample.
        """

    @abstractmethod
    def samples(self, fresh: bool, now_s: float) -> Iterable[Sample]:
        """What is known.

        Args:
            fresh: False when the last cycle failed or is overdue: then no reading may be given, only what the
                exporter itself remembers.
            now_s: monotonic seconds.
        """

    def stalled(self, now_s: float) -> str:
        """Why its data cannot be trusted now although its cycles end in time, "" if nothing is wrong."""
        return ""

    def stop(self) -> None:  # noqa: B027 - most collectors hold nothing
        """Gives back what the collector holds; called once, at the end, from another thread."""
