"""The sums that every figure is made of: tiles of a window by grouping and price, exact.

A tile is an entry clipped to the window and the site; installed time behind the booked horizon joins as `unknown`, so
that the tiles of any window sum to its installed time. The database adds up whole tiles by what they say and by the
segment of the slot axis that they lie in (see `axis`); tiles over several segments come as rectangles and are spread
here. A product of slots and milliseconds is an integer below 2^53, which the box of an entry holds exactly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from warehouse.model.state import ALLOCATED, PPM, GpuTimeClass, State, class_of
from warehouse.model.time import Window, from_datetime, to_datetime
from warehouse.store.held import HELD
from warehouse.store.rows import instant
from warehouse.views import where
from warehouse.views.axis import Axes, Price, spread
from warehouse.views.question import Question

# What costs money as loss. Unused and unknown time has prices too, in lines of its own and never in this sum.
CHARGED = (GpuTimeClass.UNPLANNED, GpuTimeClass.PLANNED, GpuTimeClass.OVERHEAD)

GROUPINGS = (
    "state", "class", "cause", "incident", "tenant", "job", "model", "day", "month", "site", "hall", "rack", "node",
)  # fmt: skip

# A subquery of its own is computed once, whatever the plan: not for each of a million rows.
_ASKED = "(select area_of(int4range(0, 2147483647), tstzrange(:start, :end)))"
_SLOT_CUTS = "(select cast(:slot_cuts as int[]))"
_TIME_CUTS = "(select cast(:time_cuts as bigint[]))"
_SITE = "area_of(int4range(asked.low, asked.high), tstzrange(:start, :end))"
_SITES = "unnest(cast(:lows as int[]), cast(:highs as int[])) as asked (low, high), "

# Slots x time of a tile is one box; `during` stands for the columns that HELD hands on.
_TILE = """
tile as (
  select e.area # {asked} as slots, null as during, e.state, e.lost_ppm, e.cause, e.incident_id, e.evidence_id,
    e.allocation_id, e.sharers, e.held_ppm, case when e.rule = 'conflict' then e.rule else e.basis end as basis
  from {sites} ledger_entry e where e.area && {asked} and e.revs @> cast(:rev as bigint) {only})
"""
_ALLOCATED = ", ".join(f"'{state.value}'" for state in sorted(ALLOCATED))
# Where nobody asks who holds it: the part of a share that stays in its state, NULL for all of it.
_PLAIN = f"""
held as (
  select tile.*, case when held_ppm is not null and allocation_id is not null and state in ({_ALLOCATED})
    then held_ppm end as ppm from tile)
"""
_WHOLE_SLOTS = "select *, 0 as first, 0 as last, 0 as low, 0 as high from cut"
_CUT_SLOTS = f"""
select *, width_bucket(low, {_SLOT_CUTS}) as first, width_bucket(high - 1, {_SLOT_CUTS}) as last
from (select *, ((slots[1])[0])::int as low, ((slots[0])[0] + 0.5)::int as high from cut offset 0) as c
"""
_WHOLE_TIME = "select *, 0 as span, (height(slots) + 0.5)::bigint as ms from held"
# Ends are exclusive: what ends at a cut does not touch the span behind it.
_CUT_TIME = f"""
select held.*, span, (least(((slots[0])[1] + 0.5)::bigint, ({_TIME_CUTS})[span + 1])
  - greatest(((slots[1])[1])::bigint, ({_TIME_CUTS})[span])) as ms
from held cross join lateral generate_series(
  width_bucket(((slots[1])[1])::bigint, {_TIME_CUTS}),
  width_bucket(((slots[0])[1] - 0.5)::bigint, {_TIME_CUTS})) as span
"""
_SUM = """
with {tile}, {held}, cut as ({time}), part as ({slots})
select {key} as key, part.state, incident_id is not null as linked, part.basis, part.lost_ppm, ppm,
  case when part.state = 'maintenance' then evidence_id end as plan, span, first,
  case when first <> last then low end as low, case when first <> last then high end as high,
  sum((width(part.slots) + 0.5)::bigint * ms)::bigint as gpu_ms, sum(ms)::bigint as ms {more}
from part {join} group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
"""
_KEYS = {
    "cause": "coalesce(part.cause, 'none')",
    "incident": "coalesce('INC-' || part.incident_id, 'none')",
    "tenant": "coalesce(part.tenant, 'none')",
    "job": "coalesce(part.job, ev.job, 'none')",
}
_EXTENT = ", min(((part.slots[1])[1])::bigint) as first_ms, max(((part.slots[0])[1] + 0.5)::bigint) as last_ms"
_JOB_OF_EVIDENCE = "left join evidence ev on ev.id = part.evidence_id and part.job is null and not part.rest"


_CLASS = {(state.value, linked): class_of(state, linked) for state in State for linked in (False, True)}


class Area(NamedTuple):
    """GPU time of one key, of one kind and price; `gpu_ppm` is GPU-ms x 1e6, `lost` GPU-ms x 1e12: exact integers."""

    key: str
    state: str
    linked: bool
    basis: str
    plan: int | None
    price: Price | None
    gpu_ppm: int
    lost: int

    @property
    def gpu_class(self) -> GpuTimeClass:
        """Gives the class of the lost part; the part that was kept is good."""
        return _CLASS[self.state, self.linked]

    @property
    def money(self) -> int:
        """Gives what the time that is not good costs, in units of 1 / `exact.MONEY`; zero without a price."""
        return 0 if self.price is None else self.not_good * self.price.units

    @property
    def not_good(self) -> int:
        """Gives the part that is not good, x 1e12: unknown time is no loss, and no good time either."""
        return self.gpu_ppm * PPM if self.state == State.UNKNOWN else self.lost


@dataclass(frozen=True, slots=True)
class Bucket:
    """A day or month of the site's own calendar, clipped to the window."""

    key: str
    window: Window


# What a group of tiles says: key, state, linked, basis, lost_ppm, held ppm, plan.
_Kind = tuple[str, str, bool, str, int, int | None, int | None]
_UNBOOKED = (State.UNKNOWN.value, False, "none", 0, None, None)
# A kind of tiles in a span of time.
_Group = tuple[_Kind, int]
_Rectangle = tuple[int, int, int]  # slots from, to, milliseconds


def areas(connection: Connection, question: Question, by: str) -> list[Area]:
    """Gives the areas of a grouping; over all keys they sum to the installed time of the window."""
    axes = _axes(connection, question, by)
    source = HELD if by in ("tenant", "job") else _PLAIN
    statement = _statement(axes, question, source, _KEYS.get(by, "''"), join=_JOB_OF_EVIDENCE if by == "job" else "")
    rows = connection.execute(text(statement), _parameters(question, axes)).all()
    kind: _Kind = ("none" if by in _KEYS else "", *_UNBOOKED)
    behind = [((kind, span), rectangle) for span, rectangle in _unbooked(question, axes)]
    return _priced(axes, by, _by_segment(axes, rows, behind))


class IncidentArea(NamedTuple):
    """What is charged to an incident in one state at one price; fields as in Area."""

    incident_id: int
    state: str
    price: Price | None
    gpu_ppm: int
    lost: int


# (incident, state) -> its first and last millisecond in the window, the last exclusive.
Extents = dict[tuple[int, str], tuple[int, int]]


def of_incidents(
    connection: Connection, question: Question, incident_id: int | None
) -> tuple[list[IncidentArea], Extents]:
    """Gives what is charged to incidents, or to one of them, and when each state of each first and last stood."""
    axes = _axes(connection, question, "incident")
    only = "and e.incident_id is not null" if incident_id is None else "and e.incident_id = :id"
    statement = _statement(axes, question, _PLAIN, "incident_id", only=only, more=_EXTENT)
    rows = connection.execute(text(statement), _parameters(question, axes) | {"id": incident_id}).all()
    extents: Extents = {}
    for number, state, *_, first_ms, last_ms in rows:
        low, high = extents.get((number, state), (first_ms, last_ms))
        extents[number, state] = min(low, first_ms), max(high, last_ms)
    priced = _priced(axes, "incident", _by_segment(axes, [row[:-2] for row in rows], []))
    # The part of a share that nobody holds is no incident's.
    mine = [area for area in priced if area.linked]
    return [IncidentArea(int(a.key), a.state, a.price, a.gpu_ppm, a.lost) for a in mine], extents


def _axes(connection: Connection, question: Question, by: str) -> Axes:
    """Gives the axes of a grouping: cut where prices change, and where a key does."""
    places = where.named(connection, question.rev, by) if by in where.KINDS else []
    spans = [(bucket.window.start_ms, bucket.key) for bucket in buckets(question, by)]
    tenure = question.tenure if question.prices or by == "model" else ()
    return Axes(question.window, tenure, question.prices, places, spans)


def _statement(
    axes: Axes, question: Question, held: str, key: str, only: str = "", join: str = "", more: str = ""
) -> str:
    asked, sites = (_ASKED, "") if question.slots is None else (_SITE, _SITES)
    return _SUM.format(
        tile=_TILE.format(asked=asked, sites=sites, only=only),
        held=held,
        time=_CUT_TIME if axes.time_cuts else _WHOLE_TIME,
        slots=_CUT_SLOTS if axes.slot_cuts else _WHOLE_SLOTS,
        key=key,
        join=join,
        more=more,
    )


def _parameters(question: Question, axes: Axes) -> dict[str, object]:
    """Gives the parameters of the statement; unused ones do no harm."""
    return {
        "start": instant(question.window.start_ms),
        "end": instant(question.window.end_ms),
        "rev": question.rev,
        "lows": [low for low, _ in question.slots or ()],
        "highs": [high for _, high in question.slots or ()],
        "slot_cuts": axes.slot_cuts,
        "time_cuts": axes.time_cuts,
    }


def _unbooked(question: Question, axes: Axes) -> Iterable[tuple[int, _Rectangle]]:
    """Yields what is installed behind the horizon, as (span, rectangle)."""
    first = min(max(question.horizon_ms, question.window.start_ms), question.window.end_ms)
    bounds = [first, *(cut for cut in axes.time_cuts if cut > first), question.window.end_ms]
    for start, end in pairwise(bounds):
        for block in question.tenure:
            last = end if block.end_ms is None else min(end, block.end_ms)
            ms = last - max(start, block.start_ms)
            if ms > 0:
                for low, high in block.slots:
                    yield axes.span(start), (low, high, ms)


def _by_segment(
    axes: Axes, rows: Iterable[Sequence[Any]], behind: Iterable[tuple[_Group, _Rectangle]]
) -> dict[_Group, dict[int, int]]:
    """Gives the GPU-ms of each kind, span and segment, from the rows of `_SUM` and further rectangles."""
    sums: dict[_Group, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    wide: dict[_Group, list[_Rectangle]] = defaultdict(list)
    for *said, span, first, low, high, gpu_ms, ms in rows:
        group: _Group = tuple(said), span
        if low is None:
            sums[group][first] += gpu_ms
        else:
            wide[group].append((low, high, ms))
    for group, rectangle in behind:
        wide[group].append(rectangle)
    for group, rectangles in wide.items():
        for segment, gpu_ms in spread(axes, rectangles).items():
            sums[group][segment] += gpu_ms
    return sums


def _priced(axes: Axes, by: str, sums: dict[_Group, dict[int, int]]) -> list[Area]:
    """Gives sums by cell as areas by key and price; the part of a share that nobody holds is idle."""
    found: dict[tuple[object, ...], list[int]] = defaultdict(lambda: [0, 0])
    shared = by not in ("tenant", "job")
    for (kind, span), by_segment in sums.items():
        key, state, linked, basis, lost_ppm, ppm, plan = kind
        held = PPM if ppm is None else ppm
        for segment, gpu_ms in by_segment.items():
            cell = axes.cell(segment, span)
            name = _name(axes, by, key, segment, span, cell.model)
            area = found[name, state, linked, basis, plan, cell.price]
            area[0] += gpu_ms * held
            area[1] += gpu_ms * held * lost_ppm
            if held < PPM and shared:
                free = "none" if by in _KEYS else name
                area = found[free, State.IDLE.value, False, "none", None, cell.price]
                area[0] += gpu_ms * (PPM - held)
                area[1] += gpu_ms * (PPM - held) * PPM
    return [Area(*group, *area) for group, area in found.items()]  # type: ignore[arg-type]


def _name(axes: Axes, by: str, key: str, segment: int, span: int, model: str) -> str:
    if by in where.KINDS:
        return axes.place(segment)
    if by in ("day", "month"):
        return axes.bucket(span)
    return model if by == "model" else key


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


def total(found: Sequence[Area], states: frozenset[State]) -> int:
    """Gives the GPU-ms x 1e6 of some states."""
    return sum(area.gpu_ppm for area in found if area.state in states)
