"""Law 1 in groupings: whatever the booked time is split by, the parts are what is installed."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import accumulate
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, text

from warehouse.ledger.laws import installed_gpu_ms
from warehouse.model.slots import SlotRanges
from warehouse.store import fleet
from warehouse.store.revisions import Revision
from warehouse.store.rows import instant, slot_ranges
from warehouse.views.proofs.places import LABEL, booked_span
from warehouse.views.question import Question
from warehouse.views.tiles import Bucket, buckets

KINDS = ("node", "rack", "hall", "site")
LINES = ("state", "cause", "incident")
GROUPINGS = (*KINDS, *LINES, "day")

# One pass for all three; what has no cause or incident is a key of its own, so that the keys sum to the whole.
_BY_LINE = """
select case when grouping(state) = 0 then 'state' when grouping(cause) = 0 then 'cause' else 'incident' end as by,
  sum((upper(slots) - lower(slots)) * span_ms(during)) as gpu_ms
from ledger_entry where revs @> cast(:rev as bigint) group by grouping sets ((state), (cause), (incident_id))
"""
_BY_DAY = """
with midnight as (select cast(:midnights as timestamptz[]) as at)
select n, sum((upper(slots) - lower(slots)) * span_ms(e.during * tstzrange(m.at[n], m.at[n + 1]))) as gpu_ms
from ledger_entry e, midnight m, generate_series(
  width_bucket(lower(e.during), m.at), width_bucket(upper(e.during) - interval '1 millisecond', m.at)) as n
where e.revs @> cast(:rev as bigint) group by n
"""
# How long each slot is booked, and how long it is installed, as steps: what is added at a slot holds from there on.
_BOOKED_STEPS = """
select slot, sum(ms) as ms from (
  select lower(slots) as slot, span_ms(during) as ms from ledger_entry where revs @> cast(:rev as bigint)
  union all select upper(slots), -span_ms(during) from ledger_entry where revs @> cast(:rev as bigint)) as edge
group by slot order by slot
"""
_INSTALLED_STEPS = """
select slot, sum(ms) as ms from (
  select slot, span_ms(during * tstzrange(:start, :end)) as ms from tenure
    where gpu_id is not null and revs @> cast(:rev as bigint)
  union all select slot + 1, -span_ms(during * tstzrange(:start, :end)) from tenure
    where gpu_id is not null and revs @> cast(:rev as bigint)
  ) as edge
group by slot order by slot
"""
_PLACES = """
select p.id, p.parent_id, l.key, x.slots from label l join place p on p.id = l.place_id
join place_extent x on x.place_id = p.id and x.revs @> cast(:rev as bigint)
"""


def additive(connection: Connection, revision: Revision) -> str | None:
    """Sums all booked time by every grouping and compares its keys with their installed time.

    A node's installed time is that of its own slots, a larger place's that of its nodes, never of what the larger
    place says it covers. Of states, causes and incidents only the whole is installed.
    """
    question = _of_all_time(connection, revision)
    if question is None:
        return None
    return _first_place(connection, question) or _first_line(connection, question) or _first_day(connection, question)


def _of_all_time(connection: Connection, revision: Revision) -> Question | None:
    span = booked_span(connection, revision)
    if span is None:
        return None
    zones = fleet.zones(connection, revision.rev)
    zone = ZoneInfo(zones[0] if len(zones) == 1 else "UTC")
    return Question(span, revision.rev, span.end_ms, None, (), zone, revision.engine)


def _first_place(connection: Connection, question: Question) -> str | None:
    values = {"rev": question.rev, "start": instant(question.window.start_ms), "end": instant(question.window.end_ms)}
    booked = _Steps((row.slot, int(row.ms)) for row in connection.execute(text(_BOOKED_STEPS), values))
    installed = _Steps((row.slot, int(row.ms)) for row in connection.execute(text(_INSTALLED_STEPS), values))
    below: dict[int, int] = {}
    for kind in KINDS:
        label = f"with label as ({LABEL.format(kind=kind)})"
        truths: dict[str, int] = {}
        found: dict[str, int] = {}
        above: dict[int, int] = defaultdict(int)
        for row in connection.execute(text(label + _PLACES), values):
            slots = slot_ranges(row.slots)
            found[row.key] = booked.area(slots)
            truths[row.key] = installed.area(slots) if kind == "node" else below.get(row.id, 0)
            if row.parent_id is not None:
                above[row.parent_id] += truths[row.key]
        said = _first_difference(kind, found, truths) or _whole(kind, sum(found.values()), installed.whole)
        if said is not None:
            return said
        below = above
    return None


def _first_line(connection: Connection, question: Question) -> str | None:
    whole = installed_gpu_ms(fleet.tenure_blocks(connection, question.rev), question.window)
    sums: dict[str, int] = defaultdict(int)
    for row in connection.execute(text(_BY_LINE), {"rev": question.rev}):
        sums[row.by] += int(row.gpu_ms)
    return next((said for by in LINES if (said := _whole(by, sums[by], whole)) is not None), None)


def _first_day(connection: Connection, question: Question) -> str | None:
    blocks = fleet.tenure_blocks(connection, question.rev)
    days: list[Bucket] = buckets(question, "day")
    midnights = [instant(day.window.start_ms) for day in days] + [instant(question.window.end_ms)]
    rows = connection.execute(text(_BY_DAY), {"rev": question.rev, "midnights": midnights})
    booked = {row.n: int(row.gpu_ms) for row in rows}
    found = {day.key: booked.pop(n, 0) for n, day in enumerate(days, start=1)}
    if booked:
        return f"by day {sum(booked.values())} GPU-ms stand outside the booked span"
    return _first_difference("day", found, {day.key: installed_gpu_ms(blocks, day.window) for day in days})


def _first_difference(by: str, found: Mapping[str, int], truth: Mapping[str, int]) -> str | None:
    for key in sorted(found.keys() | truth.keys()):
        if found.get(key, 0) != truth.get(key, 0):
            return f"{by} {key} has {found.get(key, 0)} GPU-ms booked and {truth.get(key, 0)} installed"
    return None


def _whole(by: str, parts: int, whole: int) -> str | None:
    return None if parts == whole else f"by {by} the parts sum to {parts} GPU-ms, {whole} are installed"


class _Steps:
    """A number of milliseconds per slot, constant between edges; gives its sum over a set of slots."""

    def __init__(self, changes: Iterable[tuple[int, int]]) -> None:
        told = list(changes)
        self._edges = [slot for slot, _ in told]
        self._heights = list(accumulate(ms for _, ms in told))
        widths = (after - before for before, after in zip(self._edges, self._edges[1:], strict=False))
        # The sum from the first edge up to each edge.
        areas = (width * height for width, height in zip(widths, self._heights, strict=False))
        self._until = list(accumulate(areas, initial=0))

    @property
    def whole(self) -> int:
        """Gives the sum over all slots."""
        return self._until[-1]

    def area(self, slots: SlotRanges) -> int:
        """Gives the sum over a set of slots."""
        return sum(self._below(high) - self._below(low) for low, high in slots)

    def _below(self, slot: int) -> int:
        at = bisect_right(self._edges, slot) - 1
        return 0 if at < 0 else self._until[at] + (slot - self._edges[at]) * self._heights[at]
