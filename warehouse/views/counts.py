"""How many incidents a window saw, by grouping; a zero-length fault counts here and is worth nothing elsewhere."""

from __future__ import annotations

from sqlalchemy import Connection, text

from warehouse.model.state import State, class_of
from warehouse.store.rows import instant
from warehouse.views.question import Question
from warehouse.views.tiles import IN_WINDOW, LABEL, MODEL_BLOCK, buckets

# A fault that began in the window, zero length included, or that reaches into it; where it hit installed GPUs.
_SEEN = f"""
with {MODEL_BLOCK},
seen as (
  select ie.incident_id, ev.id as evidence_id, ev.slots * b.slots as slots, b.model, ev.state::text as state,
    ev.start_at, ev.end_at, ev.job, ic.cause
  from incident_evidence ie join evidence ev on ev.id = ie.evidence_id
  join incident_cause ic on ic.incident_id = ie.incident_id and ic.role = 'charged'
    and ic.revs @> cast(:rev as bigint)
  join model_block b on b.slots && ev.slots::int4multirange and b.during && tstzrange(ev.start_at, ev.end_at, '[]')
  where ie.revs @> cast(:rev as bigint) and {IN_WINDOW})
"""
_PLACE = """, label as ({label})
select l.key, incident_id from seen join place_extent x on x.slots && seen.slots and x.revs @> cast(:rev as bigint)
  join label l on l.place_id = x.place_id"""
_BUCKET = """
select b.key, incident_id from seen join
  unnest(cast(:keys as text[]), cast(:starts as timestamptz[]), cast(:ends as timestamptz[]))
  as b (key, start_at, end_at)
  on seen.start_at < b.end_at and (seen.start_at >= b.start_at or seen.end_at is null or seen.end_at > b.start_at)
"""
_KEYS = {
    "state": "select state as key, incident_id from seen",
    "class": "select state as key, incident_id from seen",
    "cause": "select cause as key, incident_id from seen",
    "incident": "select 'INC-' || incident_id as key, incident_id from seen",
    "model": "select model as key, incident_id from seen",
    "tenant": "select a.tenant as key, seen.incident_id from seen join ledger_entry e "
    "on e.incident_id = seen.incident_id "
    "and e.revs @> cast(:rev as bigint) join allocation a on a.id = e.allocation_id",
    "job": "select coalesce(a.job, seen.job) as key, seen.incident_id from seen join ledger_entry e "
    "on e.incident_id = seen.incident_id and e.revs @> cast(:rev as bigint) left join allocation a "
    "on a.id = e.allocation_id where coalesce(a.job, seen.job) is not null",
    "day": _BUCKET,
    "month": _BUCKET,
} | {kind: _PLACE.format(label=LABEL.format(kind=kind)) for kind in ("site", "hall", "rack", "node")}


def incidents_by(connection: Connection, question: Question, by: str) -> dict[str, int]:
    """Gives the number of distinct incidents per key; one incident may count under several keys."""
    found = buckets(question, by)
    values: dict[str, object] = {
        "start": instant(question.window.start_ms),
        "end": instant(question.window.end_ms),
        "rev": question.rev,
        "to_horizon": question.to_horizon,
    }
    if found:
        values |= {
            "keys": [bucket.key for bucket in found],
            "starts": [instant(bucket.window.start_ms) for bucket in found],
            "ends": [instant(bucket.window.end_ms) for bucket in found],
        }
    rows = connection.execute(text(_SEEN + _KEYS[by]), values)
    members: dict[str, set[int]] = {}
    for key, incident_id in rows:
        name = class_of(State(key), True).value if by == "class" else key
        members.setdefault(name, set()).add(incident_id)
    return {key: len(ids) for key, ids in members.items()}
