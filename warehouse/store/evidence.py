"""Evidence and allocations: written once, superseded by a new revision, never changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, text

from warehouse.model.evidence import Allocation, Evidence
from warehouse.model.slots import SlotRanges
from warehouse.model.state import State
from warehouse.model.time import Window
from warehouse.store.rows import (
    STATES,
    as_text,
    copy_in,
    instant,
    milliseconds,
    multirange,
    revisions_from,
    slot_ranges,
    standing,
)


def heads(connection: Connection, names: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Evidence]:
    """Gives what is stored under each (source, key), in its newest revision."""
    pairs = sorted(set(names))
    rows = connection.execute(
        text(
            f"select {_COLUMNS} from unnest(cast(:sources as text[]), cast(:keys as text[])) as wanted (s, k) "  # noqa: S608 - names of our own
            "join evidence on source = wanted.s and key = wanted.k and upper_inf(revs)"
        ),
        {"sources": [source for source, _ in pairs], "keys": [key for _, key in pairs]},
    )
    return {(item.source, item.key): item for item in map(_evidence, rows)}


# As plain numbers, since a month has tens of thousands: only a set of several runs comes as a multirange.
_COLUMNS = """source, key, ms_of(start_at) as start_ms, ms_of(end_at) as end_ms, scope,
  case when int4multirange(range_merge(slots)) = slots then lower(slots) end as low, upper(slots) as high,
  case when int4multirange(range_merge(slots)) <> slots then slots end as runs,
  state, cause, lost_ppm, detail, job, basis, revision, id, ms_of(declared_at) as declared_ms,
  ms_of(earliest_start_at) as earliest_start_ms, ms_of(earliest_end_at) as earliest_end_ms"""
_EVIDENCE = f"select {_COLUMNS} from evidence where "  # noqa: S608 - names of our own
_TOUCHES = " and tstzrange(start_at, end_at, '[]') && tstzrange(:start, :end, '[]')"


def in_window(connection: Connection, window: Window, rev: int | None = None) -> list[Evidence]:
    """Gives the evidence that overlaps or touches the window, zero length included; the newest, or a revision's."""
    rows = connection.execute(
        text(_EVIDENCE + standing(rev) + _TOUCHES),
        {"start": instant(window.start_ms), "end": instant(window.end_ms), "rev": rev},
    )
    return [_evidence(row) for row in rows]


def of_source(connection: Connection, source: str, window: Window, rev: int) -> list[Evidence]:
    """Gives what a source said at a revision of a window: what overlaps it, zero length where it would begin."""
    rows = connection.execute(
        text(
            _EVIDENCE + "revs @> cast(:rev as bigint) and source = :source "
            "and tstzrange(start_at, end_at, '[]') && tstzrange(:start, :end) and start_at < :end "
            "and (end_at is null or end_at > :start or start_at >= :start)"
        ),
        {"rev": rev, "source": source, "start": instant(window.start_ms), "end": instant(window.end_ms)},
    )
    return [_evidence(row) for row in rows]


def near(connection: Connection, window: Window, slots: SlotRanges, rev: int | None = None) -> list[Evidence]:
    """Gives the evidence that overlaps or touches the window on any of the slots; the newest, or a revision's."""
    rows = connection.execute(
        text(_EVIDENCE + standing(rev) + _TOUCHES + " and slots && cast(:slots as int4multirange)"),
        {"start": instant(window.start_ms), "end": instant(window.end_ms), "slots": multirange(slots), "rev": rev},
    )
    return [_evidence(row) for row in rows]


@dataclass(frozen=True, slots=True)
class Reach:
    """Where to look: slots x [start, end] (None: open) under one cause; \"\" is a cause that rules find, None any."""

    slots: SlotRanges
    start_ms: int
    end_ms: int | None
    cause: str | None


_AROUND = """id in (
  select e.id from unnest(cast(:slots as text[]), cast(:starts as timestamptz[]), cast(:ends as timestamptz[]),
    cast(:causes as text[])) as f (slots, start_at, end_at, cause)
  join evidence e on upper_inf(e.revs) and e.slots && f.slots::int4multirange
    and tstzrange(e.start_at, e.end_at, '[]') && tstzrange(f.start_at, f.end_at, '[]')
    and e.state::text = any(cast(:states as text[]))
    and (f.cause is null or f.cause = case when e.cause = any(cast(:loose as text[])) then '' else
      coalesce(e.cause, '') end))
"""


def around(
    connection: Connection, reaches: Sequence[Reach], states: Iterable[State], loose: Iterable[str]
) -> list[Evidence]:
    """Gives the newest evidence in some states that any of these reaches meets.

    Args:
        connection: the ledger's database.
        reaches: where to look.
        states: of the evidence.
        loose: the causes that count as found by rules.
    """
    rows = connection.execute(
        text(_EVIDENCE + _AROUND),
        {
            "slots": [as_text(r.slots) for r in reaches],
            "starts": [instant(r.start_ms) for r in reaches],
            "ends": [instant(r.end_ms) for r in reaches],
            "causes": [r.cause for r in reaches],
            "states": sorted(states),
            "loose": sorted(loose),
        },
    )
    return [_evidence(row) for row in rows]


def windows_in(connection: Connection, window: Window) -> list[Evidence]:
    """Gives the newest evidence of maintenance that overlaps or touches a window."""
    rows = connection.execute(
        text(_EVIDENCE + "upper_inf(revs) and state = 'maintenance'" + _TOUCHES),
        {"start": instant(window.start_ms), "end": instant(window.end_ms)},
    )
    return [_evidence(row) for row in rows]


def by_id(connection: Connection, ids: Iterable[int], rev: int | None = None) -> list[Evidence]:
    """Gives the evidence among these row ids that stands, now or at a revision; superseded rows are left out."""
    rows = connection.execute(
        text(_EVIDENCE + standing(rev) + " and id = any(:ids)"), {"ids": sorted(set(ids)), "rev": rev}
    )
    return [_evidence(row) for row in rows]


def said_since(connection: Connection, rev: int) -> tuple[list[Evidence], list[Evidence]]:
    """Gives the newest evidence that was written at a revision or later, and all that was superseded since then."""
    fresh = connection.execute(
        text(_EVIDENCE + "upper_inf(revs) and lower(revs) >= cast(:rev as bigint)"), {"rev": rev}
    )
    gone = connection.execute(
        text(_EVIDENCE + "not upper_inf(revs) and upper(revs) >= cast(:rev as bigint)"), {"rev": rev}
    )
    return [_evidence(row) for row in fresh], [_evidence(row) for row in gone]


def every_head(connection: Connection) -> list[Evidence]:
    """Gives all evidence in its newest revision."""
    return [_evidence(row) for row in connection.execute(text(_EVIDENCE + "upper_inf(revs)"))]


def write(connection: Connection, items: Sequence[Evidence], rev: int) -> dict[tuple[str, str], int]:
    """Writes evidence at a revision and closes what it supersedes; gives the new ids by (source, key)."""
    superseded = [e.id for e in items if e.revision > 1]
    if superseded:
        connection.execute(
            text(
                "update evidence set revs = int8range(lower(revs), :rev) "
                "where upper_inf(revs) and (source, key) in "
                "(select * from unnest(cast(:s as text[]), cast(:k as text[])))"
            ),
            {
                "rev": rev,
                "s": [e.source for e in items if e.revision > 1],
                "k": [e.key for e in items if e.revision > 1],
            },
        )
    columns = (
        "source", "key", "revision", "scope", "slots", "start_at", "end_at", "state", "cause", "lost_ppm", "detail",
        "job", "basis", "declared_at", "earliest_start_at", "earliest_end_at", "revs",
    )  # fmt: skip
    types = (
        "text", "text", "int4", "text", "int4multirange", "timestamptz", "timestamptz", "text", "text", "int4", "text",
        "text", "text", "timestamptz", "timestamptz", "timestamptz", "int8range",
    )  # fmt: skip
    copy_in(
        connection, "evidence", columns, types,
        (
            (
                e.source, e.key, e.revision, e.scope, multirange(e.slots), instant(e.start_ms), instant(e.end_ms),
                e.state.value, e.cause, e.lost_ppm, e.detail, e.job, e.basis, instant(e.declared_ms),
                instant(e.earliest_start_ms), instant(e.earliest_end_ms), revisions_from(rev),
            )
            for e in items
        ),
    )  # fmt: skip
    stored = heads(connection, ((e.source, e.key) for e in items))
    return {name: item.id for name, item in stored.items() if item.id is not None}


def close(connection: Connection, items: Sequence[Evidence], rev: int) -> None:
    """Closes evidence that is no longer said, without a successor."""
    connection.execute(
        text("update evidence set revs = int8range(lower(revs), :rev) where upper_inf(revs) and id = any(:ids)"),
        {"rev": rev, "ids": [e.id for e in items]},
    )


def _evidence(row: Row[Any]) -> Evidence:
    source, key, start_ms, end_ms, scope, low, high, runs, *said = tuple(row)
    state, cause, lost_ppm, detail, job, basis, revision, number, declared_ms, earliest_start_ms, earliest_end_ms = said
    slots = ((low, high),) if runs is None else slot_ranges(runs)
    return Evidence(
        source, key, start_ms, end_ms, scope, slots, STATES[state], cause, lost_ppm, detail, job, basis, revision,
        number, declared_ms, earliest_start_ms, earliest_end_ms,
    )  # fmt: skip


AllocationName = tuple[str, int, str, int]


def allocation_heads(connection: Connection, jobs: Iterable[str]) -> dict[AllocationName, Allocation]:
    """Gives the stored allocations of jobs by (job, attempt, scope, start)."""
    rows = connection.execute(
        text("select * from allocation where upper_inf(revs) and job = any(:jobs)"), {"jobs": sorted(set(jobs))}
    )
    return {allocation_name(a): a for a in map(_allocation, rows)}


def allocation_name(allocation: Allocation) -> AllocationName:
    """Gives what names an allocation: a requeued job keeps its id, so the start is part of the name."""
    return (allocation.job, allocation.attempt, allocation.scope, allocation.start_ms)


def every_allocation(connection: Connection) -> list[Allocation]:
    """Gives all allocations in their newest revision."""
    return [_allocation(row) for row in connection.execute(text("select * from allocation where upper_inf(revs)"))]


_ALLOCATIONS = "select * from allocation where "
_OVERLAPS = " and tstzrange(start_at, end_at, '[]') && tstzrange(:start, :end)"


def allocations_in(connection: Connection, window: Window, rev: int | None = None) -> list[Allocation]:
    """Gives the allocations that overlap the window; the newest, or a revision's."""
    rows = connection.execute(
        text(_ALLOCATIONS + standing(rev) + _OVERLAPS),
        {"start": instant(window.start_ms), "end": instant(window.end_ms), "rev": rev},
    )
    return [_allocation(row) for row in rows]


def contested(connection: Connection, rev: int) -> int:
    """Gives the GPU-milliseconds that allocations of a revision contest with other jobs: together above the whole.

    Exact once the revision is booked: whatever names one of its allocations was booked with it.
    """
    return int(
        connection.execute(
            text(
                "select coalesce(sum(slot_count(int4multirange(slots))::numeric * span_ms(during)), 0) "
                "from ledger_entry where lower(revs) = cast(:rev as bigint) and allocation_id is null "
                "and sharers && array(select id from allocation where lower(revs) = cast(:rev as bigint))"
            ),
            {"rev": rev},
        ).scalar_one()
    )


def write_allocations(
    connection: Connection, items: Sequence[Allocation], superseded: Sequence[Allocation], rev: int
) -> None:
    """Writes allocations at a revision and closes those that they supersede."""
    if superseded:
        connection.execute(
            text("update allocation set revs = int8range(lower(revs), :rev) where id = any(:ids)"),
            {"rev": rev, "ids": [a.id for a in superseded]},
        )
    columns = (
        "job", "attempt", "tenant", "kind", "name", "scope", "slots", "start_at", "end_at", "share_ppm", "revs",
    )  # fmt: skip
    types = (
        "text", "int4", "text", "text", "text", "text", "int4multirange", "timestamptz", "timestamptz", "int4",
        "int8range",
    )  # fmt: skip
    copy_in(
        connection, "allocation", columns, types,
        (
            (
                a.job, a.attempt, a.tenant, a.kind, a.name, a.scope, multirange(a.slots), instant(a.start_ms),
                instant(a.end_ms), a.share_ppm, revisions_from(rev),
            )
            for a in items
        ),
    )  # fmt: skip


def _allocation(row: Row[Any]) -> Allocation:
    start_ms = milliseconds(row.start_at)
    assert start_ms is not None
    return Allocation(
        row.job, row.attempt, row.tenant, row.kind, start_ms, milliseconds(row.end_at), row.scope,
        slot_ranges(row.slots), row.name, row.id, row.share_ppm,
    )  # fmt: skip
