"""Ledger entries: reads the tiling of a window, closes what changed, opens what is new."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from psycopg.types.range import Range
from sqlalchemy import Connection, text

from warehouse.model.entry import Entry, Payload
from warehouse.model.time import Window
from warehouse.store.rows import STATES, copy_in, driver, instant, revisions_from, span

_HEAD = """
select id, lower(slots), upper(slots), ms_of(lower(during)), ms_of(upper(during)), state, lost_ppm, cause,
  incident_id, evidence_id, allocation_id, basis, rule, held_ppm, sharers
from ledger_entry
where upper_inf(revs) and area && area_of(int4range(0, 2147483647), tstzrange(%(start)s, %(end)s))
"""


def head(connection: Connection, window: Window) -> dict[Entry, int]:
    """Gives the standing entries that overlap the window, with their row ids."""
    # Straight through the driver, in binary: a month of a large fleet is a hundred thousand rows.
    with driver(connection).cursor(binary=True) as cursor:
        rows = cursor.execute(_HEAD, {"start": instant(window.start_ms), "end": instant(window.end_ms)}).fetchall()
    return {
        Entry(slot_from, slot_to, start_ms, end_ms, _payload(said)): number
        for number, slot_from, slot_to, start_ms, end_ms, *said in rows
    }


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


def _payload(said: Sequence[Any]) -> Payload:
    """Gives the columns from `state` on as a payload."""
    state, lost_ppm, cause, incident, evidence, allocation, basis, rule, held_ppm, sharers = said
    shared = None if sharers is None else tuple(sharers)
    return Payload(STATES[state], lost_ppm, cause, incident, evidence, allocation, basis, rule, held_ppm, shared)
