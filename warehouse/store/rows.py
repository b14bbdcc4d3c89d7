"""The one place where milliseconds become timestamps, slot sets become multiranges, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from psycopg import Connection as Driver
from psycopg.types.multirange import Multirange
from psycopg.types.range import Range
from sqlalchemy import Connection, text

from warehouse.model.slots import SlotRanges
from warehouse.model.state import State
from warehouse.model.time import from_datetime, to_datetime

# Looked up, since calling the enumeration takes ten times as long.
STATES = {state.value: state for state in State}

# The entries that overlap [:start, :end), by the index that refuses overlaps.
IN_TIME = "area && area_of(int4range(0, 2147483647), tstzrange(:start, :end))"


def span(start_ms: int, end_ms: int | None) -> Range[datetime]:
    """Gives the half-open tstzrange of a window; `end_ms` None leaves it open."""
    return Range(to_datetime(start_ms), None if end_ms is None else to_datetime(end_ms), "[)")


def instant(at_ms: int | None) -> datetime | None:
    """Gives the timestamp of a millisecond, NULL for None."""
    return None if at_ms is None else to_datetime(at_ms)


def milliseconds(moment: datetime | None) -> int | None:
    """Gives the millisecond of a timestamp, None for NULL."""
    return None if moment is None else from_datetime(moment)


def multirange(slots: SlotRanges) -> Multirange[int]:
    """Gives the int4multirange of a slot set."""
    return Multirange([Range(low, high, "[)") for low, high in slots])


def as_text(slots: SlotRanges) -> str:
    """Gives a slot set as PostgreSQL writes it, for arrays of them."""
    return "{" + ",".join(f"[{low},{high})" for low, high in slots) + "}"


def slot_ranges(value: Multirange[int]) -> SlotRanges:
    """Gives the slot set of an int4multirange; PostgreSQL keeps it in canonical form already."""
    return tuple((part.lower, part.upper) for part in value if part.lower is not None and part.upper is not None)


def revisions_from(rev: int) -> Range[int]:
    """Gives the open revision span that begins at `rev`."""
    return Range(rev, None, "[)")


def standing(rev: int | None, table: str = "") -> str:
    """Gives the condition that a row of history stands at the revision `:rev`, or now by the index of what stands."""
    revs = f"{table}.revs" if table else "revs"
    return f"upper_inf({revs})" if rev is None else f"{revs} @> cast(:rev as bigint)"


def driver(connection: Connection) -> Driver[Any]:
    """Gives the psycopg connection under a SQLAlchemy one, inside the same transaction."""
    raw = connection.connection.driver_connection
    assert isinstance(raw, Driver)
    return raw


def copy_in(
    connection: Connection,
    table: str,
    columns: Sequence[str],
    types: Sequence[str],
    rows: Iterable[Sequence[object]],
) -> int:
    """Loads rows by binary COPY; gives how many."""
    count = 0
    statement = f"copy {table} ({', '.join(columns)}) from stdin (format binary)"
    with driver(connection).cursor() as cursor, cursor.copy(statement) as copy:
        copy.set_types(types)
        for row in rows:
            copy.write_row(row)
            count += 1
    return count


def reserve(connection: Connection, table: str, count: int) -> list[int]:
    """Gives ids for rows yet to be loaded, so that other rows may name them."""
    return list(
        connection.execute(
            text("select nextval(pg_get_serial_sequence(:table, 'id')) from generate_series(1, :count)"),
            {"table": table, "count": count},
        ).scalars()
    )
