"""A slow second opinion: resolves one slot and one millisecond at a time, straight from the rules' words."""

from __future__ import annotations

from collections.abc import Sequence

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
