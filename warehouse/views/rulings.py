"""What people ruled: on one incident, in order, and in words for the audit log."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, text

from warehouse.model.time import format_instant

# An incident that a merge took in, and the one that a split made, are found by the revision of the ruling itself.
_RULINGS = """
select r.id, r.kind, r.incident_id, r.cause, r.author, ms_of(r.at) as at_ms, r.reason, lower(r.revs) as rev, r.about,
  (select min(i.id) from incident i where r.kind = 'merge' and i.merged_into = r.incident_id
    and i.merged_rev = lower(r.revs)) as merged_id,
  (select min(ie.incident_id) from jsonb_array_elements(r.about) a
    join evidence ev on ev.source = a->>0 and ev.key = a->>1
    join incident_evidence ie on ie.evidence_id = ev.id and ie.revs @> lower(r.revs)
    where r.kind = 'split' and a->>2 = 'apart') as split_id
from ruling r
"""
_OF_INCIDENT = """
with held as (
  select ev.source, ev.key from incident_evidence ie join evidence ev on ev.id = ie.evidence_id
  where ie.incident_id = :id and ie.revs @> cast(:rev as bigint))
"""
_SPEAKS_OF_IT = """
where r.revs @> cast(:rev as bigint) and (r.incident_id = :id or exists (
  select 1 from jsonb_array_elements(r.about) a join held on held.source = a->>0 and held.key = a->>1))
order by r.id
"""
_CHARGE = """
select set_by, reason from incident_cause
where incident_id = :id and role = 'charged' and revs @> cast(:rev as bigint)
"""


def of_incident(connection: Connection, rev: int, incident_id: int) -> dict[str, object]:
    """Gives who set the charged cause of an incident and why, and the rulings on it and on its evidence, oldest first.

    A ruling stays with the evidence of which it was said, so what was ruled on an incident that was merged into this
    one is listed too; `incident` says of which it was said.
    """
    values = {"id": incident_id, "rev": rev}
    charge = connection.execute(text(_CHARGE), values).one()
    rows = connection.execute(text(_OF_INCIDENT + _RULINGS + _SPEAKS_OF_IT), values)
    return {
        "cause_set_by": charge.set_by,
        "cause_reason": charge.reason,
        "rulings": [
            {
                "revision": row.rev,
                "at": format_instant(row.at_ms),
                "author": row.author,
                "kind": row.kind,
                "incident": f"INC-{row.incident_id}",
                "what": in_words(row),
                "reason": row.reason,
            }
            for row in rows
        ],
    }


def by_revision(connection: Connection, first: int, last: int) -> dict[int, str]:
    """Gives in words what each revision from the first to the last ruled; other revisions are left out."""
    rows = connection.execute(
        text(_RULINGS + "where lower(r.revs) between :first and :last"), {"first": first, "last": last}
    )
    return {row.rev: in_words(row) for row in rows}


def in_words(row: Row[Any]) -> str:
    """Gives what a ruling did."""
    one = f"INC-{row.incident_id}"
    if row.kind == "attribute":
        return f"{one} charged with {row.cause}" if row.cause else f"{one} charged as the rules say again"
    if row.kind == "merge":
        return f"INC-{row.merged_id} merged into {one}, charged with {row.cause}"
    if row.kind == "split":
        pieces = ", ".join(f"{words[0]}/{words[1]}" for words in row.about if len(words) > 2)
        return f"INC-{row.split_id} split off {one} with {pieces}"
    return f"note on {one}"
