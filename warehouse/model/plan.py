"""Planned maintenance as it was declared, and what each of its occurrences says as evidence."""

from __future__ import annotations

from dataclasses import dataclass, replace

from warehouse.model.evidence import Evidence
from warehouse.model.slots import SlotRanges
from warehouse.model.state import State
from warehouse.model.time import MS_PER_DAY, format_instant

# The source of all evidence that comes of plans; no other file may speak in its name.
SOURCE = "maintenance"
PLANNED = "operations/planned_maintenance"
UNPLANNED = "operations/unplanned_maintenance"

# Between a plan's id and what tells its occurrences apart; so it stands in no id.
MARK = "@"
OVERRUN = f"{MARK}overrun"

LONGEST_MS = 366 * MS_PER_DAY


@dataclass(frozen=True, slots=True)
class Plan:
    """A window of maintenance, or the first of many: `rrule` (RFC 5545) repeats it on the wall clock of `timezone`.

    `[start_ms, end_ms)` is the first occurrence as declared at `declared_ms`. `actual_end_ms` is when the work really
    ended, None for as declared; a plan that repeats has none.
    """

    key: str
    start_ms: int
    end_ms: int
    scope: str
    slots: SlotRanges
    declared_ms: int
    what: str
    timezone: str | None = None
    rrule: str | None = None
    actual_end_ms: int | None = None
    id: int | None = None

    def __post_init__(self) -> None:
        if self.end_ms <= self.start_ms:
            raise ValueError(f"plan {self.key} must end after it starts")

    @property
    def span(self) -> tuple[int, int | None]:
        """Gives the time that it may speak of; a rule has no end."""
        return self.start_ms, None if self.rrule else max(self.end_ms, self.actual_end_ms or 0)

    def same_plan(self, other: Plan) -> bool:
        """Tells whether both declare the same; slots follow from the scope."""
        return replace(self, id=None, slots=()) == replace(other, id=None, slots=())

    def ends(self, other: Plan) -> bool:
        """Tells whether this only adds when the work of `other` really ended."""
        return other.actual_end_ms is None and self.same_plan(replace(other, actual_end_ms=self.actual_end_ms))

    def occurrence_key(self, start_ms: int) -> str:
        """Gives the evidence id of the occurrence that begins at an instant."""
        return self.key if self.rrule is None else f"{self.key}{MARK}{format_instant(start_ms)}"


def plan_key(evidence_key: str) -> str:
    """Gives the id of the plan that a piece of evidence comes of."""
    return evidence_key.partition(MARK)[0]


def said_by(plan: Plan, start_ms: int, slots: SlotRanges) -> list[Evidence]:
    """Gives what an occurrence says: maintenance until its end, and down where the work went on behind that.

    Law: the maintenance never reaches past the declared end, and every occurrence has the exact length of the first.
    Work that ended early ends the claim; work that ended when it began was called off, and says no time at all.
    """
    declared_end = start_ms + plan.end_ms - plan.start_ms
    actual_end = declared_end if plan.actual_end_ms is None else plan.actual_end_ms
    said = [
        Evidence(
            SOURCE, plan.occurrence_key(start_ms), start_ms, min(declared_end, actual_end), plan.scope, slots,
            State.MAINTENANCE, PLANNED, detail=plan.what, declared_ms=plan.declared_ms,
        )
    ]  # fmt: skip
    if actual_end > declared_end:
        said.append(
            Evidence(
                SOURCE, plan.key + OVERRUN, declared_end, actual_end, plan.scope, slots, State.DOWN, UNPLANNED,
                detail=f"went on past its declared end: {plan.what}",
            )
        )  # fmt: skip
    return said
