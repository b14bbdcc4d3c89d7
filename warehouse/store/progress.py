"""Notes to ourselves: how far live sources have been read, and what an import left to be booked."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, text

from warehouse.model.time import Window
from warehouse.store.rows import copy_in, instant, milliseconds, revisions_from, span


def read(connection: Connection, source: str) -> int | None:
    """Gives the millisecond up to which a source has been read, None for never."""
    return milliseconds(
        connection.execute(
            text("select observed_until from source_progress where source = :source"), {"source": source}
        ).scalar_one_or_none()
    )


def advance(connection: Connection, source: str, until_ms: int) -> bool:
    """Notes how far a source has been read; gives False, and notes nothing, where it was read further already."""
    noted = connection.execute(
        text(
            "insert into source_progress values (:source, :until) on conflict (source) do update "
            "set observed_until = excluded.observed_until "
            "where source_progress.observed_until < excluded.observed_until returning source"
        ),
        {"source": source, "until": instant(until_ms)},
    )
    return noted.first() is not None


def defer(connection: Connection, spans: Iterable[tuple[int, int | None]], rev: int) -> None:
    """Notes time that was touched and not booked; the next booking takes it up. No length still is an instant."""
    noted = [(start, end if end is None or end > start else start + 1) for start, end in spans]
    rows = [(span(*part), revisions_from(rev)) for part in noted]
    copy_in(connection, "unbooked", ("during", "revs"), ("tstzrange", "int8range"), rows)


def take_deferred(connection: Connection, rev: int) -> list[tuple[int, int | None]]:
    """Gives the deferred spans and closes them: the caller books them in this transaction."""
    rows = connection.execute(
        text(
            "update unbooked set revs = int8range(lower(revs), :rev) where upper_inf(revs) "
            "returning ms_of(lower(during)) as start_ms, "
            "case when upper_inf(during) then null else ms_of(upper(during)) end as end_ms"
        ),
        {"rev": rev},
    )
    return [(row.start_ms, row.end_ms) for row in rows]


def pending_since(connection: Connection) -> int | None:
    """Gives the first revision whose time waits to be booked, None where none does."""
    first: int | None = connection.execute(
        text("select min(lower(revs)) from unbooked where upper_inf(revs)")
    ).scalar_one()
    return first


def booked_rev(connection: Connection, rev: int) -> int:
    """Gives the newest revision of which all that was said had been booked when `rev` was written."""
    waiting = connection.execute(
        text("select min(lower(revs)) from unbooked where revs @> cast(:rev as bigint)"), {"rev": rev}
    ).scalar_one()
    return rev if waiting is None else int(waiting) - 1


def deferred(connection: Connection, window: Window, rev: int) -> bool:
    """Tells whether time of the window waited to be booked at a revision."""
    return bool(
        connection.execute(
            text(
                "select exists (select 1 from unbooked where during && tstzrange(:start, :end) "
                "and revs @> cast(:rev as bigint))"
            ),
            {"start": instant(window.start_ms), "end": instant(window.end_ms), "rev": rev},
        ).scalar_one()
    )
