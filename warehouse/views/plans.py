"""Windows of maintenance for people: each occurrence with its wall time, and what the ledger booked of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, text

from warehouse.errors import BadInput
from warehouse.model.evidence import Evidence
from warehouse.model.plan import SOURCE, Plan, plan_key, said_by
from warehouse.model.slots import count
from warehouse.model.state import State
from warehouse.model.time import MS_PER_DAY, Window, format_instant, from_datetime, to_datetime
from warehouse.plans.rule import occurrences
from warehouse.store import evidence, fleet, plans, progress
from warehouse.store.revisions import Revision
from warehouse.store.rows import instant

# How far ahead of what is booked the list reaches unless told, and at most.
AHEAD_MS = 28 * MS_PER_DAY
FARTHEST_MS = 3_660 * MS_PER_DAY

# What was booked as this occurrence's maintenance, and what its work or the trouble that it left cost past its end:
# time charged to the overrun, of its own evidence or such as began inside the window, on the window's slots.
_BOOKED = """
with occurrence as (
  select * from unnest(cast(:ids as bigint[]), cast(:starts as timestamptz[]), cast(:ends as timestamptz[]))
    as o (id, start_at, end_at))
select o.id,
  (select coalesce(sum(slot_count(int4multirange(e.slots))::numeric * span_ms(e.during)), 0) from ledger_entry e
    where e.evidence_id = o.id and e.revs @> cast(:rev as bigint)
      and e.area && area_of(int4range(0, 2147483647), tstzrange(o.start_at, o.end_at))) as planned,
  (select coalesce(sum(slot_count(int4multirange(e.slots) * w.slots)::numeric
      * span_ms(e.during * tstzrange(o.end_at, null))), 0)
    from evidence ev join incident_evidence ie on ie.evidence_id = ev.id and ie.revs @> cast(:rev as bigint)
    join ledger_entry e on e.incident_id = ie.incident_id and e.evidence_id = ev.id and e.revs @> cast(:rev as bigint)
      and e.state <> 'maintenance' and e.cause = 'operations/unplanned_maintenance'
    where ev.revs @> cast(:rev as bigint) and o.end_at > o.start_at and ev.slots && w.slots
      and tstzrange(ev.start_at, ev.end_at, '[]') && tstzrange(o.start_at, o.end_at, '[]')
      and (ev.source = w.source and ev.key = w.key || '@overrun'
        or ev.start_at >= greatest(o.start_at, w.declared_at) and ev.start_at < o.end_at)) as overrun
from occurrence o join evidence w on w.id = o.id
"""


@dataclass(frozen=True, slots=True)
class _Found:
    plan: Plan
    said: Evidence


def maintenance(
    connection: Connection, revision: Revision, start_ms: int | None, end_ms: int | None
) -> dict[str, object]:
    """Gives the occurrences that touch a window, in order of their start, and how many plans begin behind it.

    Without times the window reaches from the first commissioning to 28 days past what is booked. What has not begun
    by the booked horizon has no figures yet: they are None.

    Raises:
        BadInput: when the window is empty, or reaches more than ten years past what is booked.
    """
    window = _window(connection, revision, start_ms, end_ms)
    horizon_ms = 0 if revision.horizon_ms is None else revision.horizon_ms
    standing = {plan.key: plan for plan in plans.read(connection, revision.rev)}
    found = [
        _Found(standing[plan_key(e.key)], e)
        for e in evidence.of_source(connection, SOURCE, window, revision.rev)
        if e.state is State.MAINTENANCE and plan_key(e.key) in standing
    ]
    known = {item.said.key for item in found}
    # What waits to be booked has begun already, and is no evidence yet.
    low = 0 if progress.deferred(connection, window, revision.rev) else horizon_ms
    for plan in standing.values():
        longest = max(plan.end_ms, plan.actual_end_ms or 0) - plan.start_ms
        ahead = occurrences(plan, max(low, window.start_ms - longest), window.end_ms)
        said = (said_by(plan, at_ms, plan.slots)[0] for at_ms in ahead)
        found += [_Found(plan, e) for e in said if e.key not in known and _touches(e, window)]
    found.sort(key=lambda item: (item.said.start_ms, item.said.key))
    booked = _booked(connection, revision.rev, [item.said for item in found])
    return {
        "window": {"from": format_instant(window.start_ms), "to": format_instant(window.end_ms)},
        "revision": revision.rev,
        "windows": [_row(item, booked.get(item.said.id or 0)) for item in found],
        "later": sum(bool(plan.start_ms >= window.end_ms) for plan in standing.values()),
    }


def _window(connection: Connection, revision: Revision, start_ms: int | None, end_ms: int | None) -> Window:
    blocks = fleet.tenure_blocks(connection, revision.rev)
    # Where nothing is booked, from when the revision was written: a name for "now" that stays the same for ever.
    booked = from_datetime(revision.recorded_at) if revision.horizon_ms is None else revision.horizon_ms
    first = min((block.start_ms for block in blocks), default=booked)
    start = first if start_ms is None else start_ms
    end = max(booked, start) + AHEAD_MS if end_ms is None else end_ms
    if end <= start:
        raise BadInput("--to is not after --from; give a later --to")
    if end > booked + FARTHEST_MS:
        raise BadInput("--to is more than ten years behind what is booked; give an earlier --to")
    return Window(start, end)


def _touches(said: Evidence, window: Window) -> bool:
    """Tells whether it overlaps the window; one that was called off has no length and counts where it would begin."""
    assert said.end_ms is not None
    return said.start_ms < window.end_ms and max(said.end_ms, said.start_ms + 1) > window.start_ms


def _booked(connection: Connection, rev: int, said: Sequence[Evidence]) -> dict[int, tuple[int, int]]:
    stored = [e for e in said if e.id is not None]
    values = {
        "rev": rev,
        "ids": [e.id for e in stored],
        "starts": [instant(e.start_ms) for e in stored],
        "ends": [instant(e.end_ms) for e in stored],
    }
    rows = connection.execute(text(_BOOKED), values)
    return {row.id: (int(row.planned), int(row.overrun)) for row in rows}


def _row(item: _Found, booked: tuple[int, int] | None) -> dict[str, object]:
    plan, said = item.plan, item.said
    zone = ZoneInfo(plan.timezone or "UTC")
    end_ms = said.start_ms + plan.end_ms - plan.start_ms
    planned, overrun = (None, None) if booked is None else booked
    return {
        "id": plan.key,
        "start": format_instant(said.start_ms),
        "end": format_instant(end_ms),
        "timezone": zone.key,
        "start_local": _wall(said.start_ms, zone),
        "end_local": _wall(end_ms, zone),
        "rrule": plan.rrule,
        "scope": said.scope,
        "gpus": count(said.slots),
        "declared_at": format_instant(plan.declared_ms),
        "declared_late": plan.declared_ms > said.start_ms,
        "what": plan.what,
        "actual_end": None if plan.actual_end_ms is None else format_instant(plan.actual_end_ms),
        "planned_gpu_ms": planned,
        "overrun_gpu_ms": overrun,
    }


def _wall(at_ms: int, zone: ZoneInfo) -> str:
    return to_datetime(at_ms).astimezone(zone).isoformat(timespec="milliseconds" if at_ms % 1000 else "seconds")
