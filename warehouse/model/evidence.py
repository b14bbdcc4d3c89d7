"""Evidence: what a source said, kept for ever; it may overlap and contradict."""

from __future__ import annotations

from dataclasses import dataclass

from warehouse.model.slots import SlotRanges
from warehouse.model.state import State


@dataclass(frozen=True, slots=True)
class Evidence:
    """ "Source S says: scope X was in state Q (cause candidate C) over [start, end)".

    Zero length is allowed: such a fault is counted and worth nothing. `end_ms` None means still open.
    `key` is the source's own id; (source, key) names the evidence, `revision` counts what was said of it.
    `basis` is `measured` or `inferred`. `lost_ppm` None means the source did not state a loss.
    `declared_ms` is when maintenance was declared, None for all other evidence.
    `earliest_start_ms` and `earliest_end_ms` are how far before `start_ms` and `end_ms` the truth may lie, where the
    source knows: it was last seen not to hold, and last seen to hold, at these instants.
    """

    source: str
    key: str
    start_ms: int
    end_ms: int | None
    scope: str
    slots: SlotRanges
    state: State
    cause: str | None = None
    lost_ppm: int | None = None
    detail: str | None = None
    job: str | None = None
    basis: str = "measured"
    revision: int = 1
    id: int | None = None
    declared_ms: int | None = None
    earliest_start_ms: int | None = None
    earliest_end_ms: int | None = None

    def __post_init__(self) -> None:
        if self.end_ms is not None and self.end_ms < self.start_ms:
            raise ValueError(f"evidence {self.source}/{self.key} ends before it starts")
        if self.earliest_start_ms is not None and self.earliest_start_ms > self.start_ms:
            raise ValueError(f"evidence {self.source}/{self.key} starts before it can have started")
        if self.earliest_end_ms is not None and (self.end_ms is None or self.earliest_end_ms > self.end_ms):
            raise ValueError(f"evidence {self.source}/{self.key} ends before it can have ended")

    @property
    def onset_ms(self) -> int:
        """Gives when it begins to own what begins after it: a window that was declared late, not before that."""
        return self.start_ms if self.declared_ms is None else max(self.start_ms, self.declared_ms)

    def same_statement(self, other: Evidence) -> bool:
        """Tells whether both say the same; ids and revisions are bookkeeping, not statement."""
        return self._statement() == other._statement()

    def closes(self, other: Evidence) -> bool:
        """Tells whether this only adds the end that `other` still lacked."""
        return other.end_ms is None and self.end_ms is not None and self._statement()[2:] == other._statement()[2:]

    def _statement(self) -> tuple[object, ...]:
        return (
            self.end_ms,
            self.earliest_end_ms,
            self.source,
            self.key,
            self.start_ms,
            self.scope,
            self.state,
            self.cause,
            self.lost_ppm,
            self.detail,
            self.job,
            self.basis,
            self.declared_ms,
            self.earliest_start_ms,
        )


@dataclass(frozen=True, slots=True)
class Allocation:
    """Slots held by one attempt of a job over [start, end); `end_ms` None means still running.

    `share_ppm` is the part of each GPU that it holds, in parts per million; None means the whole.
    """

    job: str
    attempt: int
    tenant: str
    kind: str
    start_ms: int
    end_ms: int | None
    scope: str
    slots: SlotRanges
    name: str | None = None
    id: int | None = None
    share_ppm: int | None = None
