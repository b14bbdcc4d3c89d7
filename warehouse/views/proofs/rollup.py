"""Law 1 in groupings: whatever the booked time is split by, the parts are what is installed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, text

from warehouse.ledger.laws import installed_gpu_ms
from warehouse.store import fleet
from warehouse.store.revisions import Revision
from warehouse.store.rows import instant
from warehouse.views.proofs.places import booked_span
from warehouse.views.question import Question
from warehouse.views.tiles import LABEL, PARTS, areas, buckets

# A class is a state under another name; every other grouping that people read is compared.
GROUPINGS = tuple(by for by in PARTS if by != "class")
_KINDS = ("node", "rack", "hall", "site")

# Installed time of a node by its own slots, of every larger place by its nodes: never by what that place itself covers.
_OF_NODES = """
select x.place_id, sum(span_ms(t.during * tstzrange(:start, :end)))::bigint as gpu_ms
from tenure t join place_extent x on x.slots @> t.slot and x.revs @> cast(:rev as bigint)
join place p on p.id = x.place_id and p.kind = 'node'
where t.revs @> cast(:rev as bigint) and t.during && tstzrange(:start, :end) group by 1
"""


def additive(connection: Connection, revision: Revision) -> str | None:
    """Sums all booked time by every grouping, as people read it, and compares each key with its installed time.

    Places, models, days and months have installed time of their own; of states, causes, incidents, tenants and jobs
    only the whole is installed, and what belongs to none of them is a key of its own.
    """
    question = _of_all_time(connection, revision)
    if question is None:
        return None
    truths = _truths(connection, question)
    installed = installed_gpu_ms(fleet.tenure_blocks(connection, revision.rev), question.window)
    for by in GROUPINGS:
        found: dict[str, int] = defaultdict(int)
        for area in areas(connection, question, by):
            found[area.key] += area.gpu_ms
        said = _first_difference(by, found, truths.get(by))
        if said is None and sum(found.values()) != installed:
            said = f"by {by} the parts sum to {sum(found.values())} GPU-ms, {installed} are installed"
        if said is not None:
            return said
    return None


def _first_difference(by: str, found: Mapping[str, int], truth: Mapping[str, int] | None) -> str | None:
    if truth is None:
        return None
    for key in sorted(found.keys() | truth.keys()):
        if found.get(key, 0) != truth.get(key, 0):
            return f"{by} {key} has {found.get(key, 0)} GPU-ms booked and {truth.get(key, 0)} installed"
    return None


def _of_all_time(connection: Connection, revision: Revision) -> Question | None:
    span = booked_span(connection, revision)
    if span is None:
        return None
    zones = fleet.zones(connection, revision.rev)
    zone = ZoneInfo(zones[0] if len(zones) == 1 else "UTC")
    return Question(span, revision.rev, span.end_ms, None, None, zone, revision.engine)


def _truths(connection: Connection, question: Question) -> dict[str, dict[str, int]]:
    blocks = fleet.tenure_blocks(connection, question.rev)
    truths = {
        by: {bucket.key: installed_gpu_ms(blocks, bucket.window) for bucket in buckets(question, by)}
        for by in ("day", "month")
    }
    models: dict[str, int] = defaultdict(int)
    for block in blocks:
        models[block.model] += installed_gpu_ms([block], question.window)
    return truths | {"model": models} | _places(connection, question)


def _places(connection: Connection, question: Question) -> dict[str, dict[str, int]]:
    window = {
        "rev": question.rev,
        "start": instant(question.window.start_ms),
        "end": instant(question.window.end_ms),
    }
    area = {row.place_id: int(row.gpu_ms) for row in connection.execute(text(_OF_NODES), window)}
    parents = {row.id: row.parent_id for row in connection.execute(text("select id, parent_id from place"))}
    truths: dict[str, dict[str, int]] = {}
    for kind in _KINDS:
        labels = connection.execute(text(LABEL.format(kind=kind)), {"rev": question.rev})
        truths[kind] = {row.key: area[row.place_id] for row in labels if row.place_id in area}
        above: dict[int, int] = defaultdict(int)
        for place_id, gpu_ms in area.items():
            if parents[place_id] is not None:
                above[parents[place_id]] += gpu_ms
        area = above
    return truths
