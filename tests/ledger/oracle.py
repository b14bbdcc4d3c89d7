"""A slow second opinion: resolves one slot and one millisecond at a time, straight from the rules' words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from warehouse.model.entry import Claim
from warehouse.model.state import State

RANK = [
    "stranded",
    "down",
    "recovering",
    "maintenance",
    "spare",
    "hung",
    "lost_work",
    "unusable",
    "checkpoint",
    "starved",
    "degraded",
    "startup",
    "idle_allocated",
    "productive",
    "idle_blocked",
    "idle",
    "unknown",
]


WHOLE = 1_000_000


class Verdict(NamedTuple):
    """What the ledger must say of an instant."""

    state: str
    lost_ppm: int | None
    evidence_id: int | None
    basis: str
    conflict: bool
    attempt_id: int | None
    held_ppm: int | None
    sharers: tuple[int, ...] | None


def verdict(claims: Sequence[Claim], slot: int, at_ms: int) -> Verdict | None:
    """Gives the owner's word and the holders, by the words of decision 16; None where nothing is installed."""
    owner = winner(claims, slot, at_ms)
    if owner is None:
        return None
    holders = holding(claims, slot, at_ms)
    ids = [c.attempt_id for c in holders if c.attempt_id is not None]
    held = sum(c.share_ppm or WHOLE for c in holders)
    sharers = tuple(sorted(ids)) if len(ids) > 1 or 0 < held < WHOLE else None
    if held > WHOLE:
        # The jobs' own words fall; only what knows better than "somebody held it" may stand in their place.
        better = winner([c for c in claims if c.attempt_id is None], slot, at_ms)
        assert better is not None
        rank = RANK.index(better.state.value), better.basis == "presumed"
        if better.floor or rank >= (RANK.index("productive"), True):
            return Verdict("unknown", 0, None, "none", True, None, None, sharers)
        return Verdict(
            better.state.value, better.lost_ppm, better.evidence_id, better.basis, False, None, None, sharers
        )
    basis = "none" if owner.floor else owner.basis
    return Verdict(
        owner.state.value, owner.lost_ppm, owner.evidence_id, basis, False, ids[0] if ids else None,
        held if 0 < held < WHOLE else None, sharers,
    )  # fmt: skip


def holding(claims: Sequence[Claim], slot: int, at_ms: int) -> list[Claim]:
    """Gives one allocation per job that holds the slot: its largest, then its first; the first job first."""
    here = [
        c
        for c in claims
        if c.attempt_id is not None and c.start_ms <= at_ms < c.end_ms and any(a <= slot < b for a, b in c.slots)
    ]
    found = []
    for job in sorted({str(c.job) for c in here}):
        of_job = [c for c in here if c.job == job]
        largest = max(c.share_ppm or WHOLE for c in of_job)
        found.append(min((c for c in of_job if (c.share_ppm or WHOLE) == largest), key=_first))
    return sorted(found, key=_first)


def _first(claim: Claim) -> tuple[int, int]:
    return claim.start_ms, int(claim.key)


def winner(claims: Sequence[Claim], slot: int, at_ms: int) -> Claim | None:
    """Gives the claim that owns the instant, the tenure claim for silence, None where nothing is installed."""
    here = [c for c in claims if c.start_ms <= at_ms < c.end_ms and any(low <= slot < high for low, high in c.slots)]
    tenure = next((c for c in here if c.floor), None)
    if tenure is None:
        return None
    words = [c for c in here if not c.floor]
    windows = [c for c in words if c.state is State.MAINTENANCE]
    words = [
        c
        for c in words
        if c.state.value not in ("down", "recovering") or not any(w.start_ms <= c.start_ms for w in windows)
    ]
    without_lost_work = best([c for c in words if c.state is not State.LOST_WORK])
    lost_work = best([c for c in words if c.state is State.LOST_WORK])
    work = ("productive", "degraded", "starved", "checkpoint")
    if lost_work is not None and without_lost_work is not None and without_lost_work.state.value in work:
        return lost_work
    return without_lost_work or tenure


def best(claims: Sequence[Claim]) -> Claim | None:
    """Gives the best rank, then the measured word, then the earlier onset, then the smaller id: 9, 10, b."""
    return min(
        claims,
        key=lambda c: (
            RANK.index(c.state.value), c.basis == "presumed", c.start_ms,
            (0, int(c.key), "") if c.key.isdecimal() else (1, 0, c.key),
        ),
        default=None,
    )  # fmt: skip
