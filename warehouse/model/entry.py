"""Claims go into the ledger's sweep, entries come out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from warehouse.model.slots import SlotRanges
from warehouse.model.state import STATE_RANK, State, default_lost_ppm

IdOrder = tuple[int, int, str]


def id_order(key: str) -> IdOrder:
    """Gives the order of an evidence id: numbers by value before text by code point, so that 9 is before 10."""
    return (0, int(key), key) if key.isascii() and key.isdecimal() else (1, 0, key)


class Payload(NamedTuple):
    """What an entry says of its GPU time; two entries with equal payloads may be one rectangle.

    `rule` names what made the winner win over its rank: `claim`, `window`, `lost_work`, `silence` when no source
    speaks, or `conflict` when nothing but jobs speak and they claim more than there is. `basis` is `measured`,
    `inferred`, `presumed` (allocated, no progress signal) or `none`.
    `attempt_id` is the stored allocation that holds the GPU, the first of several. Where jobs share it, or one holds
    only a part, `sharers` are the allocations, one per job, and `held_ppm` what they hold together, None for the
    whole. Sharers without an `attempt_id` contest the GPU: together they claim more than the whole.
    """

    state: State
    lost_ppm: int
    cause: str | None
    incident_id: int | None
    evidence_id: int | None
    attempt_id: int | None
    basis: str
    rule: str
    held_ppm: int | None = None
    sharers: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """ "Slots S were in state Q over [start, end)", said by one piece of evidence or one allocation.

    `floor` marks tenure itself: it says that a GPU is installed and nothing more. Outside every floor there is
    no entry at all. `onset_ms` is when the evidence began, even where the claim is clipped to a window.
    """

    slots: SlotRanges
    start_ms: int
    end_ms: int
    state: State
    key: str
    source: str
    lost_ppm: int | None = None
    cause: str | None = None
    incident_id: int | None = None
    evidence_id: int | None = None
    attempt_id: int | None = None
    basis: str = "measured"
    floor: bool = False
    onset_ms: int | None = None
    job: str | None = None
    share_ppm: int | None = None
    order: tuple[int, bool, int, IdOrder, str, int, SlotRanges] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.start_ms >= self.end_ms:
            raise ValueError(f"claim {self.source}/{self.key} must end after it starts")
        if self.lost_ppm is None:
            object.__setattr__(self, "lost_ppm", default_lost_ppm(self.state))
        if self.onset_ms is None:
            object.__setattr__(self, "onset_ms", self.start_ms)
        rank = len(STATE_RANK) if self.floor else STATE_RANK[self.state]
        # Best rank, then earlier onset, then smaller evidence id: a total order, so input order cannot matter.
        # The end closes it: two words of one key that differ only there are still told apart.
        # What is only presumed of an allocation yields to any measured word of the same state.
        presumed = self.basis == "presumed"
        object.__setattr__(
            self, "order", (rank, presumed, self.onset_ms, id_order(self.key), self.source, self.end_ms, self.slots)
        )

    def payload(
        self,
        rule: str,
        attempt_id: int | None,
        held_ppm: int | None = None,
        sharers: tuple[int, ...] | None = None,
    ) -> Payload:
        """Gives what an entry says when this claim owns the instant, and the given allocations hold the GPU."""
        if self.floor:
            return Payload(State.UNKNOWN, 0, None, None, None, None, "none", "silence")
        assert self.lost_ppm is not None
        return Payload(
            self.state,
            self.lost_ppm,
            self.cause,
            self.incident_id,
            self.evidence_id,
            attempt_id,
            self.basis,
            rule,
            held_ppm,
            sharers,
        )


class Entry(NamedTuple):
    """One rectangle of the tiling: slots `[slot_from, slot_to)` x time `[start_ms, end_ms)` in one state."""

    slot_from: int
    slot_to: int
    start_ms: int
    end_ms: int
    payload: Payload

    @property
    def gpu_ms(self) -> int:
        """Gives the area in GPU-milliseconds."""
        return (self.slot_to - self.slot_from) * (self.end_ms - self.start_ms)
