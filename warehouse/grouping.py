"""Groups what was said since the last booking with what lies near it, so that incidents follow the evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Connection

from warehouse.causes import load_causes
from warehouse.incidents.group import REOPEN_MS, group, opens_incident
from warehouse.model.cause import UNATTRIBUTED, Cause, known
from warehouse.model.evidence import Evidence
from warehouse.model.ruling import Name, Ruling, name_of
from warehouse.model.slots import EVERYWHERE
from warehouse.model.state import UNPLANNED, UNPLANNED_IF_LINKED, State
from warehouse.model.time import LAST_MS, Window
from warehouse.store import evidence, incidents, progress, rulings
from warehouse.store.evidence import Reach

Span = tuple[int, int | None]

# Only these may be an incident's.
_OPENING = UNPLANNED | UNPLANNED_IF_LINKED
# Only these may change what belongs together: a window makes overruns.
_MOVING = _OPENING | {State.MAINTENANCE}
# Causes that the rules may find where a source stated none, or stated a symptom.
_FOUND_BY_RULES = frozenset({UNATTRIBUTED, "operations/unplanned_maintenance"})
_MARGIN_MS = max(REOPEN_MS.values())


def group_fresh(connection: Connection, rev: int) -> list[Span]:
    """Groups what was said since the last booking with what lies near it; gives the spans of all that moved by that.

    Grouping goes with booking, so that at every revision an entry names the incident that its evidence has.
    """
    since = min(rev, progress.pending_since(connection) or rev)
    fresh, superseded = evidence.said_since(connection, since)
    if not fresh and not superseded:
        return []
    moved = _regroup(connection, fresh, superseded, rev)
    return [(e.start_ms, e.end_ms) for e in (*fresh, *superseded, *moved)]


def group_ruled(connection: Connection, ruling: Ruling, rev: int) -> list[Span]:
    """Groups again what a new ruling speaks of; gives the spans of the evidence whose incident or cause changed.

    The ruling is stored already. The incident of whom it was said keeps its number.
    """
    touched = list(evidence.heads(connection, ruling.about).values())
    moved = _regroup(connection, touched, (), rev, (ruling.incident_id, ruling.rest))
    return [(e.start_ms, e.end_ms) for e in moved]


def _regroup(
    connection: Connection,
    touched: Sequence[Evidence],
    superseded: Sequence[Evidence],
    rev: int,
    kept: incidents.Kept | None = None,
) -> list[Evidence]:
    """Groups evidence with what lies near it and what rulings bind to it.

    Returns:
        The evidence whose incident or charged cause changed.
    """
    old_id: dict[tuple[str, str], int | None] = {}
    for item in sorted(superseded, key=lambda e: e.revision):
        old_id.setdefault((item.source, item.key), item.id)  # the first one is the one that was grouped
    predecessor = {
        e.id: old for e in touched if e.id is not None and (old := old_id.get((e.source, e.key))) is not None
    }
    causes = load_causes()
    # What states no cause, or a symptom, is charged by the rules: to one of these.
    loose = _FOUND_BY_RULES | {code for code, cause in causes.items() if cause.is_symptom}
    ruled = rulings.standing(connection)
    told: dict[int, Evidence] = {}
    before: dict[int, int] = {}
    frontier = [*touched, *superseded]
    started = {e.id for e in frontier}
    gone = {e.id for e in superseded}
    while frontier:
        # What touches the frontier in time and slots may belong with it, its incident may hold more, and a ruling may
        # bind more to it: until nothing new comes in. The work follows what is connected, not the history.
        reaches = [_reach(e, loose) for e in frontier if e.state in _MOVING]
        reaches += [reach for e in frontier if (reach := _domain_reach(e, causes)) is not None]
        near = evidence.around(connection, reaches, _OPENING, loose)
        ids = {e.id for e in (*frontier, *near) if e.id is not None}
        before |= incidents.members_of(connection, ids - before.keys())
        members = [*(e for e in frontier if e.id not in gone), *near]
        members += evidence.by_id(connection, before.keys() - told.keys())
        bound = evidence.heads(connection, _bound_to(members, ruled)).values() if ruled else ()
        found = {e.id: e for e in (*members, *bound) if e.id is not None and opens_incident(e, causes)}
        frontier = [e for number, e in found.items() if number not in told and number not in started]
        told |= found
    windows = evidence.windows_in(connection, _span_of(told.values())) if told else []
    groups = group(told.values(), causes, windows, ruled)
    moved = incidents.regroup(connection, groups, before, predecessor, causes, rev, kept)
    return [told[i] for i in moved if i in told]


def _bound_to(items: Iterable[Evidence], ruled: Iterable[Ruling]) -> set[Name]:
    """Gives the evidence that merges and splits name together with any of this."""
    names = {name_of(e) for e in items}
    binding = (r for r in ruled if r.kind in ("merge", "split") and not names.isdisjoint(r.about))
    return {name for ruling in binding for name in ruling.about}


def _reach(item: Evidence, loose: frozenset[str]) -> Reach:
    """Gives where evidence of the same incident may be: near in time, on its slots, under a cause that may be equal.

    A maintenance window may turn what began inside it into its overrun, whatever that is charged with.
    """
    end_ms = None if item.end_ms is None else item.end_ms + _MARGIN_MS
    cause = None if item.state is State.MAINTENANCE else item.cause or ""
    return Reach(item.slots, item.start_ms - _MARGIN_MS, end_ms, "" if cause in loose else cause)


def _domain_reach(item: Evidence, causes: Mapping[str, Cause]) -> Reach | None:
    """Gives where else evidence of the same incident may be, for a cause that takes a whole domain at one time."""
    within_ms = known(causes, item.cause).joins_within_ms if item.cause is not None else 0
    if not within_ms or item.source not in REOPEN_MS:
        return None
    return Reach(EVERYWHERE, item.start_ms - within_ms, item.start_ms + within_ms, item.cause)


def _span_of(items: Iterable[Evidence]) -> Window:
    items = list(items)
    start_ms = min(e.start_ms for e in items)
    ends = [e.start_ms if e.end_ms is None else e.end_ms for e in items]
    end_ms = LAST_MS if any(e.end_ms is None for e in items) else max(ends)
    return Window(start_ms, max(end_ms, start_ms + 1))
