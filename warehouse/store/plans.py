"""Plans of maintenance as they were declared: each revision of one, and the evidence that came of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Row, text

from warehouse.model.evidence import Evidence
from warehouse.model.plan import MARK, SOURCE, Plan
from warehouse.store import evidence
from warehouse.store.rows import copy_in, instant, milliseconds, multirange, revisions_from, slot_ranges


def heads(connection: Connection, keys: Iterable[str]) -> dict[str, Plan]:
    """Gives the plans of these ids as they stand."""
    rows = connection.execute(
        text("select * from maintenance_window where upper_inf(revs) and key = any(:keys)"), {"keys": sorted(set(keys))}
    )
    return {row.key: _plan(row) for row in rows}


def standing(connection: Connection) -> list[tuple[Plan, int]]:
    """Gives every plan as it stands, with the revision that wrote it, by id."""
    rows = connection.execute(
        text("select *, lower(revs) as since from maintenance_window where upper_inf(revs) order by key")
    )
    return [(_plan(row), row.since) for row in rows]


def read(connection: Connection, rev: int) -> list[Plan]:
    """Gives every plan as it stood at a revision, by id."""
    rows = connection.execute(
        text("select * from maintenance_window where revs @> cast(:rev as bigint) order by key"), {"rev": rev}
    )
    return [_plan(row) for row in rows]


def write(connection: Connection, plans: Sequence[Plan], superseded: Sequence[Plan], rev: int) -> None:
    """Writes plans at a revision and closes those that they supersede."""
    if superseded:
        connection.execute(
            text("update maintenance_window set revs = int8range(lower(revs), :rev) where id = any(:ids)"),
            {"rev": rev, "ids": [plan.id for plan in superseded]},
        )
    columns = (
        "key", "scope", "slots", "start_at", "end_at", "declared_at", "actual_end_at", "what", "timezone", "rrule",
        "revs",
    )  # fmt: skip
    types = (
        "text", "text", "int4multirange", "timestamptz", "timestamptz", "timestamptz", "timestamptz", "text", "text",
        "text", "int8range",
    )  # fmt: skip
    copy_in(
        connection, "maintenance_window", columns, types,
        (
            (
                p.key, p.scope, multirange(p.slots), instant(p.start_ms), instant(p.end_ms), instant(p.declared_ms),
                instant(p.actual_end_ms), p.what, p.timezone, p.rrule, revisions_from(rev),
            )
            for p in plans
        ),
    )  # fmt: skip


def said_by(connection: Connection, key: str) -> dict[str, Evidence]:
    """Gives what stands as evidence of a plan, by evidence id."""
    names = connection.execute(
        text(
            "select source, key from evidence where upper_inf(revs) and source = :source "
            "and (key = :key or starts_with(key, :mark))"
        ),
        {"source": SOURCE, "key": key, "mark": key + MARK},
    ).all()
    return {e.key: e for e in evidence.heads(connection, [(row.source, row.key) for row in names]).values()}


def last_revisions(connection: Connection, keys: Iterable[str]) -> dict[str, int]:
    """Gives how often each of these was said already, those included that no longer stand."""
    rows = connection.execute(
        text(
            "select e.key, max(e.revision) as revision from unnest(cast(:keys as text[])) as wanted (key) "
            "join evidence e on e.source = :source and e.key = wanted.key group by e.key"
        ),
        {"source": SOURCE, "keys": sorted(set(keys))},
    )
    return {row.key: row.revision for row in rows}


def _plan(row: Row[Any]) -> Plan:
    start_ms, end_ms, declared_ms = map(milliseconds, (row.start_at, row.end_at, row.declared_at))
    assert start_ms is not None and end_ms is not None and declared_ms is not None
    return Plan(
        row.key, start_ms, end_ms, row.scope, slot_ranges(row.slots), declared_ms, row.what, row.timezone, row.rrule,
        milliseconds(row.actual_end_at), row.id,
    )  # fmt: skip
