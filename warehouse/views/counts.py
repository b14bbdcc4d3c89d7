"""How many incidents a window saw, by grouping; a zero-length fault counts here and is worth nothing elsewhere."""

from __future__ import annotations

from sqlalchemy import Connection, text

from warehouse.model.state import State, class_of
from warehouse.store.rows import instant, multirange, span
from warehouse.views import where
from warehouse.views.axis import bridged
from warehouse.views.question import Question
from warehouse.views.tiles import buckets

# Evidence that the window saw. Half-open, but what happened at the very instant up to which all is booked belongs to
# the window that ends there: the latest fact of all may be a fault of zero length. The first line is the index's.
IN_WINDOW = """tstzrange(ev.start_at, ev.end_at, '[]') && tstzrange(:start, :end, '[]')
  and (ev.start_at < :end or (ev.start_at = :end and :to_horizon))
  and (ev.start_at >= :start or ev.end_at is null or ev.end_at > :start)"""
# Installed GPUs of the fleet or the site, as few blocks.
BLOCKS = """unnest(cast(:block_slots as int4multirange[]), cast(:block_spans as tstzrange[]), cast(:models as text[]))
  as b (slots, during, model)"""
HIT = "b.slots && ev.slots::int4multirange and b.during && tstzrange(ev.start_at, ev.end_at, '[]')"

# A fault that began in the window, zero length included, or that reaches into it; where it hit installed GPUs.
_SEEN = f"""
with seen as (
  select ie.incident_id, ev.slots * b.slots as slots, b.model, ev.state::text as state, ev.start_at, ev.end_at, ev.job,
    ic.cause
  from evidence ev join incident_evidence ie on ie.evidence_id = ev.id and ie.revs @> cast(:rev as bigint)
  join incident_cause ic on ic.incident_id = ie.incident_id and ic.role = 'charged'
    and ic.revs @> cast(:rev as bigint)
  join {BLOCKS} on {HIT}
  where {IN_WINDOW})
"""
_PLACE = """
select ((select cast(:numbers as int[])))[at] as number, count(distinct incident_id) from seen, unnest(slots) as r,
  generate_series(width_bucket(lower(r), (select cast(:lows as int[]))),
    width_bucket(upper(r) - 1, (select cast(:lows as int[])))) as at
group by 1"""
_BUCKET = """
select b.key, count(distinct incident_id) from seen join
  unnest(cast(:keys as text[]), cast(:starts as timestamptz[]), cast(:ends as timestamptz[]))
  as b (key, start_at, end_at)
  on seen.start_at < b.end_at and (seen.start_at >= b.start_at or seen.end_at is null or seen.end_at > b.start_at)
group by 1"""
_HELD = """
select {key} as key, count(distinct e.incident_id)
from (select incident_id, min(job) as job from seen group by 1) as seen
join ledger_entry e on e.incident_id = seen.incident_id and e.revs @> cast(:rev as bigint)
left join allocation a on e.allocation_id is not null and a.id = any(coalesce(e.sharers, array[e.allocation_id]))
where {key} is not null group by 1"""
_KEYS = {
    "state": "select state, count(distinct incident_id) from seen group by 1",
    "class": "select c.name, count(distinct incident_id) from seen join "
    "unnest(cast(:states as text[]), cast(:classes as text[])) as c (state, name) on c.state = seen.state group by 1",
    "cause": "select cause, count(distinct incident_id) from seen group by 1",
    "incident": "select distinct 'INC-' || incident_id, 1 from seen",
    "model": "select model, count(distinct incident_id) from seen group by 1",
    "tenant": _HELD.format(key="a.tenant"),
    "job": _HELD.format(key="coalesce(a.job, seen.job)"),
    "day": _BUCKET,
    "month": _BUCKET,
} | dict.fromkeys(where.KINDS, _PLACE)


def incidents_by(connection: Connection, question: Question, by: str) -> dict[str, int]:
    """Gives the number of distinct incidents per key; one incident may count under several keys."""
    values = parameters(question)
    if found := buckets(question, by):
        values |= {
            "keys": [bucket.key for bucket in found],
            "starts": [instant(bucket.window.start_ms) for bucket in found],
            "ends": [instant(bucket.window.end_ms) for bucket in found],
        }
    elif by in where.KINDS:
        places = where.named(connection, question.rev, by)
        # A place may have several ranges, and a number is found faster than a name.
        names = list(dict.fromkeys(name for _, _, name in places))
        number = {name: at for at, name in enumerate(names)}
        values |= {"lows": [low for low, _, _ in places], "numbers": [number[name] for _, _, name in places]}
        rows = connection.execute(text(_SEEN + _KEYS[by]), values)
        return {names[at]: count for at, count in rows}
    elif by == "class":
        values |= {"states": [s.value for s in State], "classes": [class_of(s, True).value for s in State]}
    rows = connection.execute(text(_SEEN + _KEYS[by]), values)
    return {str(key): int(count) for key, count in rows}


def parameters(question: Question) -> dict[str, object]:
    """Gives the parameters of IN_WINDOW and BLOCKS."""
    blocks = bridged(question.tenure)
    return {
        "start": instant(question.window.start_ms),
        "end": instant(question.window.end_ms),
        "rev": question.rev,
        "to_horizon": question.to_horizon,
        "block_slots": [multirange(block.slots) for block in blocks],
        "block_spans": [span(block.start_ms, block.end_ms) for block in blocks],
        "models": [block.model for block in blocks],
    }
