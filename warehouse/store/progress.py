"""How far live sources have been read."""

from __future__ import annotations

from sqlalchemy import Connection, text

from warehouse.store.rows import instant, milliseconds


def read(connection: Connection, source: str) -> int | None:
    """Gives the millisecond up to which a source has been read, None for never."""
    return milliseconds(
        connection.execute(
            text("select observed_until from source_progress where source = :source"), {"source": source}
        ).scalar_one_or_none()
    )


def write(connection: Connection, source: str, until_ms: int) -> None:
    """Notes how far a source has been read."""
    connection.execute(
        text(
            "insert into source_progress values (:source, :until) "
            "on conflict (source) do update set observed_until = excluded.observed_until"
        ),
        {"source": source, "until": instant(until_ms)},
    )
