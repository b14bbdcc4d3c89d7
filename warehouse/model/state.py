"""The 17 states of a GPU-instant, their rank, and the six classes of the headlines.

The list is closed: a new state changes past totals, so it needs a decision record and a migration.
"""

from __future__ import annotations

from enum import StrEnum

PPM = 1_000_000


class State(StrEnum):
    """What an installed GPU can be at an instant. Declared best rank first: a lower rank wins the instant."""

    STRANDED = "stranded"
    DOWN = "down"
    RECOVERING = "recovering"
    MAINTENANCE = "maintenance"
    SPARE = "spare"
    HUNG = "hung"
    LOST_WORK = "lost_work"
    UNUSABLE = "unusable"
    CHECKPOINT = "checkpoint"
    STARVED = "starved"
    DEGRADED = "degraded"
    STARTUP = "startup"
    IDLE_ALLOCATED = "idle_allocated"
    PRODUCTIVE = "productive"
    IDLE_BLOCKED = "idle_blocked"
    IDLE = "idle"
    UNKNOWN = "unknown"


class GpuTimeClass(StrEnum):
    """The six classes of GPU time; for every window they sum to installed."""

    GOOD = "good"
    OVERHEAD = "overhead"
    UNPLANNED = "unplanned"
    PLANNED = "planned"
    UNUSED = "unused"
    UNKNOWN = "unknown"


STATE_RANK: dict[State, int] = {state: rank for rank, state in enumerate(State)}

# Loss inside these may be a fraction; everywhere else a state is all or nothing.
PARTIAL = frozenset({State.UNUSABLE, State.STARVED, State.DEGRADED})
LOSSLESS = frozenset({State.PRODUCTIVE, State.UNKNOWN})

# Work that a failure can take back: the only states that lost_work may replace.
REPLACED_BY_LOST_WORK = frozenset({State.PRODUCTIVE, State.DEGRADED, State.STARVED, State.CHECKPOINT})

# A maintenance window owns what begins inside it.
OWNED_BY_WINDOW = frozenset({State.DOWN, State.RECOVERING})

UNPLANNED = frozenset(
    {
        State.HUNG,
        State.UNUSABLE,
        State.STARVED,
        State.DEGRADED,
        State.LOST_WORK,
        State.DOWN,
        State.RECOVERING,
    }
)

# Unplanned only when an incident caused them; else overhead (startup, checkpoint) or unused (idle_blocked).
UNPLANNED_IF_LINKED = frozenset({State.STARTUP, State.CHECKPOINT, State.IDLE_BLOCKED})

OVERHEAD = frozenset({State.STARTUP, State.CHECKPOINT})

UNUSED = frozenset({State.IDLE_ALLOCATED, State.IDLE_BLOCKED, State.IDLE, State.SPARE, State.STRANDED})

# A slot that is down inside a job's allocation is not allocated time: the job's wait shows elsewhere.
ALLOCATED = frozenset(
    {
        State.STARTUP,
        State.CHECKPOINT,
        State.HUNG,
        State.UNUSABLE,
        State.STARVED,
        State.DEGRADED,
        State.LOST_WORK,
        State.IDLE_ALLOCATED,
        State.PRODUCTIVE,
    }
)

UNAVAILABLE = frozenset({State.STRANDED, State.DOWN, State.RECOVERING, State.MAINTENANCE})


def default_lost_ppm(state: State) -> int:
    """Gives the loss of a state whose source stated none, in parts per million.

    A partial state without a stated loss counts whole: nothing says that any of it was good.
    """
    return 0 if state in LOSSLESS else PPM


def class_of(state: State, linked: bool) -> GpuTimeClass:
    """Gives the class of the *lost* part of a state; the kept part of a partial state is always good.

    Args:
        state: the state of the instant.
        linked: whether an incident caused it.
    """
    if state is State.PRODUCTIVE:
        return GpuTimeClass.GOOD
    if state is State.UNKNOWN:
        return GpuTimeClass.UNKNOWN
    if state is State.MAINTENANCE:
        return GpuTimeClass.PLANNED
    if state in UNPLANNED or (linked and state in UNPLANNED_IF_LINKED):
        return GpuTimeClass.UNPLANNED
    if state in OVERHEAD:
        return GpuTimeClass.OVERHEAD
    return GpuTimeClass.UNUSED
