"""Rulings: what people decided about incidents, bound to evidence by its name."""

from __future__ import annotations

import json

from sqlalchemy import Connection, text

from warehouse.model.ruling import Name, Ruling
from warehouse.store.rows import instant, milliseconds, revisions_from

# Third word of a name in `about`: this evidence was split off.
APART = "apart"


def write(connection: Connection, ruling: Ruling, rev: int) -> int:
    """Writes a ruling at a revision; gives its id, which is higher than that of any ruling before it."""
    about = [[*name, APART] if name in ruling.apart else [*name] for name in sorted(ruling.about)]
    return int(
        connection.execute(
            text(
                "insert into ruling (kind, incident_id, cause, is_symptom, about, author, at, reason, revs) values "
                "(:kind, :incident_id, :cause, :is_symptom, cast(:about as jsonb), :author, :at, :reason, :revs) "
                "returning id"
            ),
            {
                "kind": ruling.kind,
                "incident_id": ruling.incident_id,
                "cause": ruling.cause,
                "is_symptom": None if ruling.cause is None else False,
                "about": json.dumps(about),
                "author": ruling.author,
                "at": instant(ruling.at_ms),
                "reason": ruling.reason,
                "revs": revisions_from(rev),
            },
        ).scalar_one()
    )


def standing(connection: Connection) -> list[Ruling]:
    """Gives all rulings that say how evidence is grouped or charged, oldest first; people make few of them."""
    rows = connection.execute(text("select * from ruling where upper_inf(revs) and kind <> 'note' order by id"))
    found = []
    for row in rows:
        about = {_name(words): len(words) > 2 for words in row.about}
        at_ms = milliseconds(row.at)
        assert at_ms is not None
        found.append(
            Ruling(
                row.kind, row.incident_id, frozenset(about), row.author, row.reason, at_ms, row.cause,
                frozenset(name for name, is_apart in about.items() if is_apart), row.id,
            )
        )  # fmt: skip
    return found


def _name(words: list[str]) -> Name:
    return (words[0], words[1])
