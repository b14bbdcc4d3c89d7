"""What the history writes down: rows of evidence.csv and allocations.csv, in the order in which they are said."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from warehouse.demo.fleet import scope_of
from warehouse.model.time import MS_PER_HOUR, MS_PER_MINUTE, MS_PER_SECOND, format_instant

EVIDENCE_COLUMNS = ("id", "source", "start", "end", "scope", "state", "cause", "lost", "detail", "job")
ALLOCATION_COLUMNS = ("job", "attempt", "tenant", "kind", "start", "end", "scope", "name")

MONITOR = "demo-monitor"
SCHEDULER = "demo-scheduler"
FACILITY = "demo-facility"
TRAINER = "demo-trainer"


def hours(number: float) -> int:
    """Gives milliseconds of hours, whole seconds."""
    return round(number * MS_PER_HOUR / MS_PER_SECOND) * MS_PER_SECOND


def minutes(number: float) -> int:
    """Gives milliseconds of minutes, whole seconds."""
    return round(number * MS_PER_MINUTE / MS_PER_SECOND) * MS_PER_SECOND


@dataclass(frozen=True, slots=True)
class Job:
    """What all attempts of a job share."""

    id: str
    tenant: str
    kind: str
    name: str


@dataclass(slots=True)
class Record:
    """Collects the rows; an end of None is still open.

    Attributes:
        evidence: rows of evidence.csv.
        allocations: rows of allocations.csv.
        running: nodes of each job that has no end.
    """

    evidence: list[Sequence[str]] = field(default_factory=list)
    allocations: list[Sequence[str]] = field(default_factory=list)
    running: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def say(
        self,
        source: str,
        start_ms: int,
        end_ms: int | None,
        scope: str | Collection[str],
        state: str,
        cause: str = "",
        *,
        detail: str = "",
        lost: str = "",
        job: str = "",
    ) -> None:
        """Adds a line of evidence.

        Args:
            source: who says it.
            start_ms: begin.
            end_ms: end.
            scope: in words, or as nodes.
            state: one of the 17.
            cause: code of the catalogue.
            detail: for people.
            lost: 0..1, blank for the state's default.
            job: who was hit.
        """
        place = scope if isinstance(scope, str) else scope_of(scope)
        number = sum(row[1] == source for row in self.evidence) + 1
        end = "" if end_ms is None else format_instant(end_ms)
        key = f"{source}-{number:04d}"
        self.evidence.append((key, source, format_instant(start_ms), end, place, state, cause, lost, detail, job))

    def hold(self, job: Job, attempt: int, start_ms: int, end_ms: int | None, nodes: Sequence[str]) -> None:
        """Adds one attempt of a job."""
        end = "" if end_ms is None else format_instant(end_ms)
        words = (job.id, str(attempt), job.tenant, job.kind, format_instant(start_ms), end, scope_of(nodes), job.name)
        self.allocations.append(words)
        if end_ms is None:
            self.running[job.id] = tuple(nodes)

    def idle(self, start_ms: int, end_ms: int | None, nodes: Collection[str]) -> None:
        """Says that nobody wanted some nodes; nothing for no time."""
        if end_ms is None or end_ms > start_ms:
            self.say(SCHEDULER, start_ms, end_ms, nodes, "idle", detail="no pending job fits")
