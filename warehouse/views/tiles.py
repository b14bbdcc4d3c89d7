"""The SQL of every sum: the tiles of a window, split by a grouping, their areas and their priced areas.

A tile is an entry clipped to the window; installed time behind the booked horizon joins as `unknown`, so that the
tiles of any window sum to its installed time. Areas are exact: integers and numeric, never a float.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from sqlalchemy import Connection, text

from warehouse.model.state import PPM, GpuTimeClass, State, class_of
from warehouse.model.time import Window, from_datetime, to_datetime
from warehouse.store.rows import IN_TIME, instant
from warehouse.views.question import Question

# Installed GPUs of one model over one span, as one block: a fleet has few of them.
MODEL_BLOCK = """
model_block as (
  select range_agg(int4range(t.slot, t.slot + 1)) as slots, t.during::tstzrange as during, g.model
  from tenure t join gpu g on g.id = t.gpu_id where t.revs @> cast(:rev as bigint) group by t.during, g.model)"""
_TILES = f"""
with asked as (select tstzrange(:start, :end) as during), {MODEL_BLOCK},
tile as (
  select int4multirange(e.slots) as slots, e.during * w.during as during, e.state::text as state, e.lost_ppm,
    e.cause, e.incident_id, e.evidence_id, e.allocation_id, e.basis
  from ledger_entry e, asked w where e.revs @> cast(:rev as bigint) and e.{IN_TIME}
  union all
  select b.slots, b.during * tstzrange(least(greatest(:horizon, :start), :end), :end), 'unknown', 0, null, null, null,
    null, 'none'
  from model_block b where :horizon < :end and b.during && tstzrange(least(greatest(:horizon, :start), :end), :end)),
"""

# Evidence that the window saw. Half-open, but what happened at the very instant up to which all is booked belongs to
# the window that ends there: the latest fact of all may be a fault of zero length.
IN_WINDOW = """(ev.start_at < :end or (ev.start_at = :end and :to_horizon))
  and (ev.start_at >= :start or ev.end_at is null or ev.end_at > :start)"""

# Each grouping rewrites tiles into parts: (key, slots, during, rest). Parts of a tile never overlap.
_REST = "tile.state, tile.lost_ppm, tile.cause, tile.incident_id, tile.basis"
_PLACE = f"""
label as ({{label}}),
part as (select l.key, tile.slots * x.slots as slots, tile.during, {_REST}
  from tile join place_extent x on x.slots && tile.slots and x.revs @> cast(:rev as bigint)
  join label l on l.place_id = x.place_id)
"""
_SIMPLE = f"part as (select {{key}} as key, tile.slots, tile.during, {_REST} from tile)"
_ALLOCATED = f"""
part as (select coalesce({{key}}, 'none') as key, tile.slots, tile.during, {_REST}
  from tile left join allocation a on a.id = tile.allocation_id left join evidence ev on ev.id = tile.evidence_id)
"""
_MODEL = f"""
part as (select b.model as key, tile.slots * b.slots as slots, tile.during * b.during as during, {_REST}
  from tile join model_block b on b.slots && tile.slots and b.during && tile.during)
"""
_BUCKET = f"""
bucket as (select * from unnest(cast(:keys as text[]), cast(:starts as timestamptz[]), cast(:ends as timestamptz[]))
  as b (key, start_at, end_at)),
part as (select b.key, tile.slots, tile.during * tstzrange(b.start_at, b.end_at) as during, {_REST}
  from tile join bucket b on tile.during && tstzrange(b.start_at, b.end_at))
"""

# A name is the key where it is the only one of its kind; otherwise its path is, so that no two places share a row.
LABEL = """select p.id as place_id, case when count(*) over (partition by p.name) = 1 then p.name
  else concat_ws('/', d.name, c.name, b.name, p.name) end as key
  from place p left join place b on b.id = p.parent_id left join place c on c.id = b.parent_id
  left join place d on d.id = c.parent_id
  where p.kind = '{kind}' and p.rev <= cast(:rev as bigint)"""

PARTS = {
    "state": _SIMPLE.format(key="tile.state"),
    "class": _SIMPLE.format(key="tile.state"),
    "cause": _SIMPLE.format(key="coalesce(tile.cause, 'none')"),
    "incident": _SIMPLE.format(key="coalesce('INC-' || tile.incident_id, 'none')"),
    "tenant": _ALLOCATED.format(key="a.tenant"),
    "job": _ALLOCATED.format(key="coalesce(a.job, ev.job)"),
    "model": _MODEL,
    "day": _BUCKET,
    "month": _BUCKET,
} | {kind: _PLACE.format(label=LABEL.format(kind=kind)) for kind in ("site", "hall", "rack", "node")}

_AREA = """
select key, state, incident_id is not null as linked, basis = 'presumed' as presumed,
  sum(slot_count(slots)::numeric * span_ms(during)) as gpu_ms,
  sum(slot_count(slots)::numeric * span_ms(during) * lost_ppm) as lost_ms_ppm
from part group by 1, 2, 3, 4
"""
_PRICED = """,
price as (
  select b.slots, b.during * r.effective as during, r.per_gpu_hour
  from model_block b join rate_line l on l.model = b.model and l.card = :card
  join rate r on r.line_id = l.id and r.revs @> cast(:rev as bigint) and b.during && r.effective::tstzrange)
select key, state, incident_id is not null as linked, p.per_gpu_hour,
  sum(slot_count(part.slots * p.slots)::numeric * span_ms(part.during * p.during)) as gpu_ms,
  sum(slot_count(part.slots * p.slots)::numeric * span_ms(part.during * p.during) * lost_ppm) as lost_ms_ppm
from part join price p on p.slots && part.slots and p.during && part.during group by 1, 2, 3, 4
"""


class Area(NamedTuple):
    """GPU time of one key, state and linkage; `lost_ms_ppm` is GPU-ms x lost_ppm, an exact integer."""

    key: str
    state: str
    linked: bool
    presumed: bool
    gpu_ms: int
    lost_ms_ppm: int


class PricedArea(NamedTuple):
    """GPU time at one price."""

    key: str
    state: str
    linked: bool
    per_gpu_hour: Decimal
    gpu_ms: int
    lost_ms_ppm: int


# What costs money as loss. Unused and unknown time has prices too, in lines of its own and never in this sum.
CHARGED = (GpuTimeClass.UNPLANNED, GpuTimeClass.PLANNED, GpuTimeClass.OVERHEAD)


def gpu_class(area: Area | PricedArea) -> GpuTimeClass:
    """Gives the class of an area's lost part; the part that was kept is good."""
    return class_of(State(area.state), area.linked)


def not_good_ms_ppm(area: Area | PricedArea) -> int:
    """Gives the part that is not good, in GPU-ms x 1,000,000: unknown time is no loss, and no good time either."""
    return area.gpu_ms * PPM if area.state == State.UNKNOWN else area.lost_ms_ppm


@dataclass(frozen=True, slots=True)
class Bucket:
    """A day or month of the site's own calendar, clipped to the window."""

    key: str
    window: Window


def areas(connection: Connection, question: Question, by: str) -> list[Area]:
    """Gives the areas of a grouping; over all keys they sum to the installed time of the window."""
    rows = connection.execute(text(_TILES + PARTS[by] + _AREA), _parameters(question, by))
    return [Area(r.key, r.state, r.linked, r.presumed, int(r.gpu_ms), int(r.lost_ms_ppm)) for r in rows]


def priced_areas(connection: Connection, question: Question, by: str) -> list[PricedArea]:
    """Gives the areas that the question's card has a price for; what is missing against `areas` is unpriced."""
    if question.card is None:
        return []
    rows = connection.execute(text(_TILES + PARTS[by] + _PRICED), _parameters(question, by) | {"card": question.card})
    return [PricedArea(r.key, r.state, r.linked, r.per_gpu_hour, int(r.gpu_ms), int(r.lost_ms_ppm)) for r in rows]


def buckets(question: Question, by: str) -> list[Bucket]:
    """Gives the days or months of the site's zone that the window touches; a day may have 23 or 25 hours."""
    if by not in ("day", "month"):
        return []
    found = []
    at = to_datetime(question.window.start_ms).astimezone(question.zone)
    at = at.replace(hour=0, minute=0, second=0, microsecond=0, day=at.day if by == "day" else 1, fold=0)
    while (start_ms := from_datetime(at)) < question.window.end_ms:
        following = _next(at, by)
        clipped = (
            max(start_ms, question.window.start_ms),
            min(from_datetime(following), question.window.end_ms),
        )
        if clipped[0] < clipped[1]:
            found.append(Bucket(at.strftime("%Y-%m-%d" if by == "day" else "%Y-%m"), Window(*clipped)))
        at = following
    return found


def _next(at: datetime, by: str) -> datetime:
    # Wall-clock arithmetic: midnight to midnight, whatever the clock does in between.
    if by == "day":
        return (at.replace(tzinfo=None) + timedelta(days=1)).replace(tzinfo=at.tzinfo)
    return at.replace(year=at.year + at.month // 12, month=at.month % 12 + 1)


def _parameters(question: Question, by: str) -> dict[str, object]:
    found: Sequence[Bucket] = buckets(question, by)
    values: dict[str, object] = {
        "start": instant(question.window.start_ms),
        "end": instant(question.window.end_ms),
        "horizon": instant(question.horizon_ms),
        "rev": question.rev,
    }
    if by in ("day", "month"):
        values |= {
            "keys": [bucket.key for bucket in found],
            "starts": [instant(bucket.window.start_ms) for bucket in found],
            "ends": [instant(bucket.window.end_ms) for bucket in found],
        }
    return values
