"""Proves the laws on the live database: conservation, one state per instant, nothing invented, history kept.

Each proof reads the stored rows themselves and trusts no constraint; the constraints are proven to stand as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection, text

from warehouse.ledger.laws import installed_gpu_ms
from warehouse.model.entry import Entry
from warehouse.model.time import MS_PER_DAY, Window, format_instant
from warehouse.store import entries, fleet, revisions
from warehouse.store.revisions import Revision

CONSTRAINTS = {
    "ex_ledger_entry_one_state": "EXCLUDE USING gist (area WITH &&, revs WITH &&)",
    "ex_tenure_one_gpu_per_slot": "EXCLUDE USING gist (slot_area WITH &&, revs WITH &&)",
    "ex_tenure_one_slot_per_gpu": "EXCLUDE USING gist (gpu_area WITH &&, revs WITH &&)",
    "ex_rate_one_price": "EXCLUDE USING gist (line_k WITH &&, effective WITH &&, revs WITH &&)",
    "ex_period_once": "EXCLUDE USING gist (site_k WITH &&, during WITH &&)",
    "ex_place_extent_one_at_a_time": "EXCLUDE USING gist (place_k WITH &&, revs WITH &&)",
    "ex_incident_evidence_one_incident": "EXCLUDE USING gist (evidence_k WITH &&, revs WITH &&)",
    "ex_incident_cause_one_charged": "EXCLUDE USING gist (incident_k WITH &&, revs WITH &&) "
    "WHERE ((role = 'charged'::text))",
}
HISTORY = (*revisions.HISTORY_TABLES, "incident", "ledger_entry", "revision")


@dataclass(frozen=True, slots=True)
class Proof:
    """One law: whether it holds, and what was compared, or where it first breaks."""

    law: str
    number: int
    holds: bool
    said: str


def check(connection: Connection, revision: Revision) -> list[Proof]:
    """Gives a proof per law, at a revision; for the history all revisions are read."""
    laws: list[tuple[int, str, Callable[[Connection, Revision], str | None], str]] = [
        (1, "conservation", _conservation, "entries = tenure, to the millisecond, on every day"),
        (2, "one state per instant", _one_state, "no GPU-instant twice, none outside tenure, none missing"),
        (4, "nothing is invented", _nothing_invented, "every entry lies inside the evidence or allocation it names"),
        (4, "one charged cause", _one_charge, "every entry names the incident and the cause that its evidence has"),
        (6, "history is append-only", _history, "the chain of revisions holds, guards stand"),
    ]
    proofs = []
    for number, law, proof, said in laws:
        broken = proof(connection, revision)
        proofs.append(Proof(law, number, broken is None, said if broken is None else broken))
    return proofs


def _span(connection: Connection, revision: Revision) -> Window | None:
    blocks = fleet.tenure_blocks(connection, revision.rev)
    if not blocks or revision.horizon_ms is None:
        return None
    first = min(block.start_ms for block in blocks)
    return Window(first, revision.horizon_ms) if first < revision.horizon_ms else None


def _conservation(connection: Connection, revision: Revision) -> str | None:
    span = _span(connection, revision)
    booked = {
        row.day: int(row.gpu_ms)
        for row in connection.execute(
            text(
                "select ms_of(lower(during)) / :day as day, sum(slot_count(int4multirange(slots))::numeric * "
                "span_ms(during)) as gpu_ms from ledger_entry where revs @> cast(:rev as bigint) group by 1"
            ),
            {"day": MS_PER_DAY, "rev": revision.rev},
        )
    }
    if span is None:
        return f"{sum(booked.values())} GPU-ms booked where nothing is installed" if booked else None
    blocks = fleet.tenure_blocks(connection, revision.rev)
    for day in range(span.start_ms // MS_PER_DAY, -(-span.end_ms // MS_PER_DAY)):
        window = Window(max(day * MS_PER_DAY, span.start_ms), min((day + 1) * MS_PER_DAY, span.end_ms))
        installed = installed_gpu_ms(blocks, window)
        if booked.pop(day, 0) != installed:
            return (
                f"the day of {format_instant(window.start_ms)} has another area than its tenure of {installed} GPU-ms"
            )
    return f"{sum(booked.values())} GPU-ms booked outside the booked span" if booked else None


def _one_state(connection: Connection, revision: Revision) -> str | None:
    twice = connection.execute(
        text(
            "select a.slots * b.slots as slots, ms_of(lower(a.during * b.during)) as at_ms "
            "from ledger_entry a join ledger_entry b on a.id < b.id and a.area && b.area "
            "and a.revs && b.revs limit 1"
        )
    ).first()
    if twice is not None:
        return f"slots {twice.slots.lower} to {twice.slots.upper - 1} are booked twice at {format_instant(twice.at_ms)}"
    outside = connection.execute(
        text(
            """
            with block as (
              select range_agg(int4range(slot, slot + 1)) as slots, during::tstzrange as during from tenure
              where revs @> cast(:rev as bigint) and gpu_id is not null group by during)
            select e.id, ms_of(lower(e.during)) as at_ms, lower(e.slots) as slot from ledger_entry e
            left join block b on b.slots && e.slots::int4range and b.during && e.during::tstzrange
            where e.revs @> cast(:rev as bigint) group by e.id, e.slots, e.during
            having slot_count(int4multirange(e.slots)) * span_ms(e.during) <>
              coalesce(sum(slot_count(b.slots * int4multirange(e.slots)) * span_ms(b.during * e.during)), 0) limit 1
            """
        ),
        {"rev": revision.rev},
    ).first()
    if outside is not None:
        return f"slot {outside.slot} is booked outside its tenure at {format_instant(outside.at_ms)}"
    return _missing_constraint(connection)


def _missing_constraint(connection: Connection) -> str | None:
    found = {
        row.conname: row.definition
        for row in connection.execute(
            text("select conname, pg_get_constraintdef(oid) as definition from pg_constraint where contype = 'x'")
        )
    }
    for name, definition in CONSTRAINTS.items():
        if found.get(name) != definition:
            return f"the constraint {name} is {'altered' if name in found else 'gone'}"
    return None


def _nothing_invented(connection: Connection, revision: Revision) -> str | None:
    row = connection.execute(
        text(
            """
            select e.id, e.state, lower(e.slots) as slot, ms_of(lower(e.during)) as at_ms from ledger_entry e
            left join evidence ev on ev.id = e.evidence_id left join allocation a on a.id = e.allocation_id
            where e.revs @> cast(:rev as bigint) and not case
              when e.rule in ('silence', 'conflict') then e.state = 'unknown' and e.lost_ppm = 0
              when e.evidence_id is not null then ev.state::text = e.state::text
                and ev.slots::int4multirange @> e.slots::int4range
                and tstzrange(ev.start_at, ev.end_at) @> e.during::tstzrange
              when e.basis = 'presumed' then e.state = 'productive' and a.slots::int4multirange @> e.slots::int4range
                and tstzrange(a.start_at, a.end_at) @> e.during::tstzrange
              else e.state = 'stranded' and (select count(*) from tenure t where t.stranded and t.gpu_id is not null
                and t.slot_area && e.area
                and t.revs @> cast(:rev as bigint)) >= upper(e.slots) - lower(e.slots) end
            limit 1
            """
        ),
        {"rev": revision.rev},
    ).first()
    if row is None:
        return None
    return f"slot {row.slot} is booked {row.state} at {format_instant(row.at_ms)}, which nothing that was said covers"


def _one_charge(connection: Connection, revision: Revision) -> str | None:
    row = connection.execute(
        text(
            """
            select lower(e.slots) as slot, ms_of(lower(e.during)) as at_ms from ledger_entry e
            left join incident_evidence ie on ie.evidence_id = e.evidence_id and ie.revs @> cast(:rev as bigint)
            left join incident_cause ic on ic.incident_id = ie.incident_id and ic.role = 'charged'
              and ic.revs @> cast(:rev as bigint)
            where e.revs @> cast(:rev as bigint) and e.evidence_id is not null
              and (e.incident_id is distinct from ie.incident_id
                or (ie.incident_id is not null and e.cause is distinct from ic.cause))
            limit 1
            """
        ),
        {"rev": revision.rev},
    ).first()
    if row is None:
        return None
    return f"slot {row.slot} names another incident or cause at {format_instant(row.at_ms)} than its evidence has"


def _history(connection: Connection, revision: Revision) -> str | None:
    opened: dict[int, list[Entry]] = defaultdict(list)
    closed: dict[int, list[Entry]] = defaultdict(list)
    for entry, opened_rev, closed_rev in entries.every(connection):
        opened[opened_rev].append(entry)
        if closed_rev is not None:
            closed[closed_rev].append(entry)
    rows: dict[int, list[str]] = defaultdict(list)
    for rev, line in revisions.history_rows(connection):
        rows[rev].append(line)
    before = b""
    for number, known in enumerate(revisions.every(connection), start=1):
        if known.rev != number:
            return f"revision {number} is missing"
        changed = closed.pop(number, []), opened.pop(number, []), rows.pop(number, [])
        if revisions.link(before, known, *changed) != known.chain:
            return f"revision {number} or the rows it wrote were altered"
        before = known.chain
    if opened or closed or rows:
        return f"rows name revision {min([*opened, *closed, *rows])}, which does not exist"
    return _missing_guard(connection)


def _missing_guard(connection: Connection) -> str | None:
    standing = {
        (row.relname, bool(row.truncates))
        for row in connection.execute(
            text(
                "select c.relname, (t.tgtype & 32) > 0 as truncates from pg_trigger t join pg_class c "
                "on c.oid = t.tgrelid where not t.tgisinternal and t.tgenabled = 'O'"
            )
        )
    }
    for table in HISTORY:
        for truncates in (False, True):
            if (table, truncates) not in standing:
                return f"the guard of {table} against {'TRUNCATE' if truncates else 'UPDATE and DELETE'} is gone"
    return None


def booked_until(connection: Connection, revision: Revision) -> str:
    """Gives the booked span in words."""
    span = _span(connection, revision)
    return "nothing booked" if span is None else f"{format_instant(span.start_ms)} to {format_instant(span.end_ms)}"
