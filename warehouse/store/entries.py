"""Ledger entries: reads the tiling of a window, closes what changed, opens what is new."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from psycopg.types.range import Range
from sqlalchemy import Connection, Row, text

from warehouse.model.entry import Entry, Payload
from warehouse.model.state import State
from warehouse.model.time import Window
from warehouse.store.rows import IN_TIME, copy_in, instant, revisions_from, span

_SELECT = """
select id, lower(slots) as slot_from, upper(slots) as slot_to, ms_of(lower(during)) as start_ms,
  ms_of(upper(during)) as end_ms, state, lost_ppm, cause, incident_id, evidence_id, allocation_id, basis, rule,
  held_ppm, sharers, lower(revs) as opened, upper(revs) as closed
from ledger_entry
"""


def head(connection: Connection, window: Window) -> dict[Entry, int]:
    """Gives the standing entries that overlap the window, with their row ids."""
    rows = connection.execute(
        text(_SELECT + f"where upper_inf(revs) and {IN_TIME}"),
        {"start": instant(window.start_ms), "end": instant(window.end_ms)},
    )
    return {_entry(row): row.id for row in rows}


def change(connection: Connection, closed_ids: Sequence[int], opened: Iterable[Entry], rev: int) -> None:
    """Closes entries first, then opens the new ones: so the exclusion constraint can stay immediate."""
    if closed_ids:
        connection.execute(
            text("update ledger_entry set revs = int8range(lower(revs), :rev) where id = any(:ids)"),
            {"rev": rev, "ids": list(closed_ids)},
        )
    columns = (
        "slots", "during", "revs", "state", "lost_ppm", "cause", "incident_id", "evidence_id", "allocation_id", "basis",
        "rule", "held_ppm", "sharers",
    )  # fmt: skip
    types = (
        "int4range", "tstzrange", "int8range", "text", "int4", "text", "int8", "int8", "int8", "text", "text", "int4",
        "int8[]",
    )  # fmt: skip
    copy_in(connection, "ledger_entry", columns, types, (_row(entry, rev) for entry in opened))


def _row(entry: Entry, rev: int) -> tuple[object, ...]:
    p = entry.payload
    slots = Range(entry.slot_from, entry.slot_to, "[)")
    during = span(entry.start_ms, entry.end_ms)
    return (
        slots, during, revisions_from(rev), p.state.value, p.lost_ppm, p.cause, p.incident_id, p.evidence_id,
        p.attempt_id, p.basis, p.rule, p.held_ppm, None if p.sharers is None else list(p.sharers),
    )  # fmt: skip


def _entry(row: Row[Any]) -> Entry:
    payload = Payload(
        State(row.state), row.lost_ppm, row.cause, row.incident_id, row.evidence_id, row.allocation_id, row.basis,
        row.rule, row.held_ppm, None if row.sharers is None else tuple(row.sharers),
    )  # fmt: skip
    return Entry(row.slot_from, row.slot_to, row.start_ms, row.end_ms, payload)
