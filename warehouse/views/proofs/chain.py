"""Law 6: the chain of revisions, computed again from every row of history, in one ordered stream."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection

from warehouse.model.time import format_instant, from_datetime
from warehouse.store import revisions
from warehouse.store.revisions import Revision


def unbroken(connection: Connection, _: Revision) -> str | None:
    """Gives the first revision whose rows or words are not those that its link was made of."""
    lines = _Lines(revisions.lines(connection))
    before = b""
    for number, known in enumerate(revisions.every(connection), start=1):
        stray = lines.before(known.rev)
        if stray is not None:
            return f"rows name revision {stray}, which does not exist"
        if known.rev != number:
            return f"revision {number} is missing"
        if revisions.chained(before, known, lines.of(number)) != known.chain:
            at = format_instant(from_datetime(known.recorded_at))
            return f"revision {number} ({known.kind} by {known.author}, {at}) or a row that it wrote was altered"
        before = known.chain
    stray = lines.before(None)
    return None if stray is None else f"rows name revision {stray}, which does not exist"


class _Lines:
    """The stream of (revision, line), read one revision at a time."""

    def __init__(self, stream: Iterator[tuple[int, bytes]]) -> None:
        self._stream = stream
        self._next = next(stream, None)

    def before(self, rev: int | None) -> int | None:
        """Gives the revision of the next line where it is earlier than this one; None asks for any line at all."""
        if self._next is None or (rev is not None and self._next[0] >= rev):
            return None
        return self._next[0]

    def of(self, rev: int) -> Iterator[bytes]:
        """Yields the lines of a revision."""
        while self._next is not None and self._next[0] == rev:
            yield self._next[1]
            self._next = next(self._stream, None)
