"""Groups what was said since the last booking with what lies near it, so that incidents follow the evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection

from warehouse.causes import load_causes
from warehouse.incidents.group import REOPEN_MS, group, opens_incident
from warehouse.model.evidence import Evidence
from warehouse.model.slots import SlotRanges, normalise
from warehouse.model.state import State
from warehouse.model.time import Window
from warehouse.store import evidence, incidents, progress

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


def _regroup(
    connection: Connection, fresh: Sequence[Evidence], superseded: Sequence[Evidence], rev: int
) -> list[Evidence]:
    """Groups new evidence with what lies near it; gives the evidence whose incident or charged cause changed."""
    old_id: dict[tuple[str, str], int | None] = {}
    for item in sorted(superseded, key=lambda e: e.revision):
        old_id.setdefault((item.source, item.key), item.id)  # the first one is the one that was grouped
    predecessor = {e.id: old for e in fresh if e.id is not None and (old := old_id.get((e.source, e.key))) is not None}
    causes = load_causes()
    told: dict[int, Evidence] = {}
    before: dict[int, int] = {}
    reach: list[Evidence] = [*fresh, *superseded]
    while True:
        # What lies near in time and slots may touch more, and its incident may hold more: until nothing new comes in.
        near = evidence.near(connection, _span_of(reach, max(REOPEN_MS.values())), _slots_of(reach))
        ids = [e.id for e in (*near, *superseded) if e.id is not None]
        before = incidents.members_of(connection, ids)
        found = {e.id: e for e in (*near, *evidence.by_id(connection, before)) if e.id is not None}
        fresh_ids = found.keys() - told.keys()
        told |= found
        reach = [*fresh, *superseded, *(e for e in told.values() if opens_incident(e, causes))]
        if not any(opens_incident(told[i], causes) for i in fresh_ids):
            break
    windows = [e for e in evidence.in_window(connection, _span_of(reach, 0)) if e.state is State.MAINTENANCE]
    groups = group(told.values(), causes, windows)
    moved = incidents.regroup(connection, groups, before, predecessor, causes, rev)
    return [told[i] for i in moved if i in told]


def _slots_of(items: Iterable[Evidence]) -> SlotRanges:
    return normalise(part for e in items for part in e.slots)


def _span_of(items: Iterable[Evidence], margin_ms: int) -> Window:
    items = list(items)
    start_ms = min(e.start_ms for e in items) - margin_ms
    ends = [e.start_ms if e.end_ms is None else e.end_ms for e in items]
    far = 253_402_300_799_000  # the year 9999: an open end reaches everything that comes later
    end_ms = far if any(e.end_ms is None for e in items) else max(ends) + margin_ms
    return Window(start_ms, max(end_ms, start_ms + 1))
