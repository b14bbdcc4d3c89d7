"""Groups what was said since the last booking with what lies near it, so that incidents follow the evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection

from warehouse.causes import load_causes
from warehouse.incidents.group import REOPEN_MS, group, opens_incident
from warehouse.model.evidence import Evidence
from warehouse.model.ruling import Name, Ruling, name_of
from warehouse.model.slots import SlotRanges, normalise
from warehouse.model.state import State
from warehouse.model.time import Window
from warehouse.store import evidence, incidents, progress, rulings

Span = tuple[int, int | None]


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
    ruled = rulings.standing(connection)
    told: dict[int, Evidence] = {}
    before: dict[int, int] = {}
    reach: list[Evidence] = [*touched, *superseded]
    while True:
        # What lies near in time and slots may touch more, its incident may hold more, and a ruling may bind more to it:
        # until nothing new comes in.
        near = evidence.near(connection, _span_of(reach, max(REOPEN_MS.values())), _slots_of(reach))
        ids = [e.id for e in (*near, *superseded) if e.id is not None]
        before = incidents.members_of(connection, ids)
        members = [*near, *evidence.by_id(connection, before)]
        bound = evidence.heads(connection, _bound_to(members, ruled)).values() if ruled else ()
        found = {e.id: e for e in (*members, *bound) if e.id is not None}
        fresh_ids = found.keys() - told.keys()
        told |= found
        reach = [*touched, *superseded, *(e for e in told.values() if opens_incident(e, causes))]
        if not any(opens_incident(told[i], causes) for i in fresh_ids):
            break
    windows = [e for e in evidence.in_window(connection, _span_of(reach, 0)) if e.state is State.MAINTENANCE]
    groups = group(told.values(), causes, windows, ruled)
    moved = incidents.regroup(connection, groups, before, predecessor, causes, rev, kept)
    return [told[i] for i in moved if i in told]


def _bound_to(items: Iterable[Evidence], ruled: Iterable[Ruling]) -> set[Name]:
    """Gives the evidence that merges and splits name together with any of this."""
    names = {name_of(e) for e in items}
    binding = (r for r in ruled if r.kind in ("merge", "split") and not names.isdisjoint(r.about))
    return {name for ruling in binding for name in ruling.about}


def _slots_of(items: Iterable[Evidence]) -> SlotRanges:
    return normalise(part for e in items for part in e.slots)


def _span_of(items: Iterable[Evidence], margin_ms: int) -> Window:
    items = list(items)
    start_ms = min(e.start_ms for e in items) - margin_ms
    ends = [e.start_ms if e.end_ms is None else e.end_ms for e in items]
    far = 253_402_300_799_000  # the year 9999: an open end reaches everything that comes later
    end_ms = far if any(e.end_ms is None for e in items) else max(ends) + margin_ms
    return Window(start_ms, max(end_ms, start_ms + 1))
