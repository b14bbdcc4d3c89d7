"""The laws in SQL: reads `laws.sql` and tells which of its statements give rows."""

from __future__ import annotations

import re
from pathlib import Path

from sqlalchemy import Connection

_FILE = Path(__file__).with_name("laws.sql")
_HEAD = re.compile(r"^-- (\d+) ([a-z -]+?)(?:[,:].*)?$")


def statements() -> list[tuple[int, str, str]]:
    """Gives (number, name, statement) in the order of the file."""
    found = []
    for part in _FILE.read_text().split("\n\n"):
        head = _HEAD.match(part.strip().split("\n", 1)[0])
        if head is not None:
            found.append((int(head[1]), head[2], part))
    return found


def broken(connection: Connection) -> list[str]:
    """Gives `number name: first row` of every law that is broken, in the order of the file."""
    found = []
    for number, name, statement in statements():
        row = connection.exec_driver_sql(statement).first()
        if row is not None:
            found.append(f"{number} {name}: {tuple(row)}")
    return found
