"""Revisions: who changed the ledger when, why, from which input, chained so that a rewritten row shows."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, text

from warehouse.ledger.laws import LawBroken
from warehouse.model.entry import Entry
from warehouse.model.time import format_instant, from_datetime
from warehouse.store.rows import driver, instant, milliseconds

# One writer per ledger; any number of readers.
WRITER_LOCK = 4_777_002
# After this long a waiting writer says whom it waits for; until then it only looks, so often.
_PATIENCE_SECONDS = 2.0
_LOOK_SECONDS = 0.05

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Revision:
    """One step of the ledger's history; `horizon_ms` is the instant up to which it is booked, None for nothing yet."""

    rev: int
    recorded_at: datetime
    kind: str
    author: str
    engine: str
    horizon_ms: int | None
    input_digest: bytes
    reason: str
    chain: bytes


def lock_writer(connection: Connection) -> None:
    """Waits to be the one writer until this transaction ends; says so in the log when that takes more than a moment.

    It is the first lock that an act takes and the only one that two acts contend for, so that none can deadlock.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    lock = {"lock": WRITER_LOCK}
    while not connection.execute(text("select pg_try_advisory_xact_lock(:lock)"), lock).scalar_one():
        if time.monotonic() > deadline:
            _LOG.info("waiting for the one writer of the ledger: %s", _holder(connection))
            connection.execute(text("select pg_advisory_xact_lock(:lock)"), lock)
            return
        time.sleep(_LOOK_SECONDS)


def _holder(connection: Connection) -> str:
    """Gives who holds the writer's lock; of another role's session the database tells only the process."""
    row = connection.execute(
        text(
            "select a.pid, a.application_name, ms_of(a.xact_start) as since_ms "
            "from pg_locks l join pg_stat_activity a using (pid) "
            "where l.locktype = 'advisory' and l.classid = 0 and l.objid = :lock and l.objsubid = 1 and l.granted "
            "and l.database = (select oid from pg_database where datname = current_database())"
        ),
        {"lock": WRITER_LOCK},
    ).first()
    if row is None:
        return "another writer waits for it too"
    who = f"{row.application_name}, " if row.application_name else ""
    since = "" if row.since_ms is None else f", since {format_instant(row.since_ms)}"
    return f"{who}database process {row.pid}{since}"


def latest(connection: Connection, as_of: int | None = None) -> Revision | None:
    """Gives the newest revision, or the one named by `as_of`; None where there is none."""
    row = connection.execute(
        text("select * from revision where rev <= coalesce(cast(:rev as bigint), rev) order by rev desc limit 1"),
        {"rev": as_of},
    ).one_or_none()
    if row is None or (as_of is not None and row.rev != as_of):
        return None
    return _revision(row)


def newest_rev(connection: Connection) -> int:
    """Gives a revision at which all rows stand that stand now, those of the revision being written among them."""
    return int(connection.execute(text("select coalesce(max(rev), 0) + 1 from revision")).scalar_one())


def add(connection: Connection, revision: Revision, closed: Iterable[Entry] = (), opened: Iterable[Entry] = ()) -> None:
    """Writes the revision with its place in the chain."""
    before = latest(connection)
    chain = link(before.chain if before else b"", revision, closed, opened, _rows_of(connection, revision.rev))
    connection.execute(
        text(
            "insert into revision values "
            "(:rev, :recorded_at, :kind, :author, :engine, :horizon, :input_digest, :reason, :chain)"
        ),
        {
            "rev": revision.rev,
            "recorded_at": revision.recorded_at,
            "kind": revision.kind,
            "author": revision.author,
            "engine": revision.engine,
            "horizon": instant(revision.horizon_ms),
            "input_digest": revision.input_digest,
            "reason": revision.reason,
            "chain": chain,
        },
    )


def link(
    before: bytes, revision: Revision, closed: Iterable[Entry], opened: Iterable[Entry], rows: Iterable[str]
) -> bytes:
    """Gives the chain value: sha256 over the one before, the revision's own words and all rows that it changed.

    Args:
        before: the chain value of the revision before, empty for the first.
        revision: its own chain is left out.
        closed: entries that it closed.
        opened: entries that it opened.
        rows: rows of the other tables of history that it closed or opened, as `lines` writes them.
    """
    signed = ((b"-", closed), (b"+", opened))
    entries = (sign + line for sign, changed in signed for line in sorted(map(_line, changed)))
    return chained(before, revision, (*entries, *(row.encode() for row in sorted(rows))))


def chained(before: bytes, revision: Revision, lines: Iterable[bytes]) -> bytes:
    """Gives the chain value over lines that are in order: entries closed, entries opened, other rows, each sorted."""
    digest = hashlib.sha256(before)
    words = (
        revision.rev, from_datetime(revision.recorded_at), revision.kind, revision.author,
        revision.engine, revision.horizon_ms, revision.input_digest.hex(), revision.reason,
    )  # fmt: skip
    digest.update(repr(words).encode())
    for line in lines:
        digest.update(line)
    return digest.digest()


# All history but the entries, which the writer has at hand. Generated columns follow from the others.
HISTORY_TABLES = (
    "unbooked", "place_extent", "tenure", "evidence", "allocation", "incident_evidence", "incident_cause", "rate",
    "place", "gpu", "rate_line", "incident", "ruling", "maintenance_window", "period", "posting",
)  # fmt: skip
_GENERATED = "{revs,area,slot_area,gpu_area,slot_k,place_k,evidence_k,incident_k,line_k,site_k}"
# Columns that came later are left out of a row's words while they are NULL: a chain written before them still proves.
LATER = {
    "tenure": ("contract", "commissioned", "said_model", "why"),
    "evidence": ("declared_at", "earliest_start_at", "earliest_end_at"),
    "allocation": ("share_ppm",),
}


def _row(table: str) -> str:
    """Gives the query of a table's rows as the chain words them; rows older than the table's `revs` are not in it."""
    later = "".join(f" - case when t.{column} is null then '{column}' else '' end" for column in LATER.get(table, ()))
    return (
        "select lower(revs) as opened, upper(revs) as closed, "  # noqa: S608 - names of our own
        f"(to_jsonb(t) - '{_GENERATED}'::text[]{later})::text as said from {table} t where revs is not null"
    )


# An entry in the words of `_line`: Python's own of a tuple, made by the database so that millions can be streamed.
_ENTRY = """'(' || concat_ws(', ', lower(slots), upper(slots), ms_of(lower(during)), ms_of(upper(during)),
  quote_literal(state), lost_ppm, coalesce(quote_literal(cause), 'None'), coalesce(incident_id::text, 'None'),
  coalesce(evidence_id::text, 'None'), coalesce(allocation_id::text, 'None'), quote_literal(basis),
  quote_literal(rule), case when held_ppm is not null or sharers is not null then
    concat_ws(', ', coalesce(held_ppm::text, 'None'), coalesce('(' || array_to_string(sharers, ', ')
      || case when cardinality(sharers) = 1 then ',)' else ')' end, 'None')) end) || ')'"""

# As many lines as are fetched at once: the memory that a proof of the chain needs, whatever the ledger's size.
_FETCHED_LINES = 20_000


def lines(connection: Connection) -> Iterator[tuple[int, bytes]]:
    """Yields (revision, line) of every row of history, in the order in which the chain takes them.

    A row is told where it was opened, and again where it was closed. The database sorts, and may use its disk.
    """
    said = f"select {_ENTRY} as said, lower(revs) as opened, upper(revs) as closed from ledger_entry"  # noqa: S608
    parts = [
        f"select closed as rev, 0 as part, '-' || said as line from ({said}) e where closed is not null",  # noqa: S608
        f"select opened, 1, '+' || said from ({said}) e",  # noqa: S608
    ]
    for table in HISTORY_TABLES:
        row = _row(table)
        parts.append(f"select opened, 2, '+{table}' || said from ({row}) r")  # noqa: S608
        parts.append(f"select closed, 2, '-{table}' || said from ({row}) r where closed is not null")  # noqa: S608
    query = f'select * from ({" union all ".join(parts)}) told order by rev, part, line collate "C"'  # noqa: S608
    connection.execute(text("set local timezone to 'UTC'"))  # what jsonb says of an instant depends on it
    with driver(connection).cursor("chain") as cursor:
        cursor.itersize = _FETCHED_LINES
        for rev, _, line in cursor.execute(query.encode()):
            yield rev, line.encode()


# Tables whose rows are never closed.
_WRITTEN_ONCE = frozenset({"place", "gpu", "rate_line", "incident", "period", "posting"})


def refuse_orphans(connection: Connection, rev: int) -> None:
    """Makes sure that an act which writes no revision wrote no row of one.

    Raises:
        LawBroken: naming a row; then nothing is stored.
    """
    rows = _rows_of(connection, rev)
    if rows:
        raise LawBroken("history", f"a row of revision {rev} without that revision: {rows[0][:200]}")


def _rows_of(connection: Connection, rev: int) -> list[str]:
    connection.execute(text("set local timezone to 'UTC'"))  # what jsonb says of an instant depends on it
    lines = []
    for table in HISTORY_TABLES:
        for sign, edge in (("+", "lower(revs)"), ("-", "upper(revs)")):
            if sign == "-" and table in _WRITTEN_ONCE:
                continue
            bound = f" and {edge} = cast(:rev as bigint)" + ("" if sign == "+" else " and not upper_inf(revs)")
            lines += [f"{sign}{table}{row.said}" for row in connection.execute(text(_row(table) + bound), {"rev": rev})]
    return lines


def _line(entry: Entry) -> bytes:
    p = entry.payload
    words: tuple[object, ...] = (
        entry.slot_from, entry.slot_to, entry.start_ms, entry.end_ms, p.state.value, p.lost_ppm, p.cause,
        p.incident_id, p.evidence_id, p.attempt_id, p.basis, p.rule,
    )  # fmt: skip
    if p.held_ppm is not None or p.sharers is not None:
        words += (p.held_ppm, p.sharers)
    return repr(words).encode()


def digest(parts: Iterable[object]) -> bytes:
    """Gives the digest of an input: sha256 over its parts in canonical order."""
    total = hashlib.sha256()
    for line in sorted(repr(part).encode() for part in parts):
        total.update(hashlib.sha256(line).digest())
    return total.digest()


def wanted_horizon(connection: Connection, now_ms: int) -> int | None:
    """Gives how far the stored facts reach: their latest past instant, or now while any of them is still open.

    Future instants (a window declared ahead) book nothing before their time has come. Occurrences of a rule are no
    facts: each would reach to the next, and an endless rule would book for ever. A single window is one as declared.
    """
    row = connection.execute(
        text(
            """
            with facts (at, open) as (
              select start_at, end_at is null from evidence where upper_inf(revs) and source <> 'maintenance'
              union all select end_at, false from evidence where upper_inf(revs) and source <> 'maintenance'
              union all select start_at, false from maintenance_window where upper_inf(revs) and rrule is null
              union all select end_at, false from maintenance_window where upper_inf(revs) and rrule is null
              union all select actual_end_at, false from maintenance_window where upper_inf(revs)
              union all select start_at, end_at is null from allocation where upper_inf(revs)
              union all select end_at, false from allocation where upper_inf(revs)
              union all select upper(during), false from tenure where upper_inf(revs) and not upper_inf(during))
            select ms_of(max(at) filter (where at <= :now)) as latest, bool_or(open and at <= :now) as open from facts
            """
        ),
        {"now": instant(now_ms)},
    ).one()
    return now_ms if row.open else row.latest


def analyse(connection: Connection) -> None:
    """Tells the planner what a large change did: without it, the first questions after an import take seconds."""
    connection.execute(
        text("analyze place, gpu, tenure, evidence, allocation, incident_evidence, incident_cause, ledger_entry")
    )


def every(connection: Connection) -> list[Revision]:
    """Gives all revisions, oldest first."""
    return [_revision(row) for row in connection.execute(text("select * from revision order by rev"))]


def _revision(row: Row[Any]) -> Revision:
    return Revision(
        row.rev, row.recorded_at, row.kind, row.author, row.engine, milliseconds(row.horizon), row.input_digest,
        row.reason, row.chain,
    )  # fmt: skip
