"""Who sat where: the stays of GPUs in slots, and what became of their time. History stays with slot and GPU alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection, text

from warehouse.errors import BadInput
from warehouse.ledger.price import largest_remainder
from warehouse.model.fleet import StoredNode
from warehouse.model.state import PPM, GpuTimeClass, State, class_of
from warehouse.model.time import format_instant
from warehouse.store import fleet
from warehouse.store.revisions import Revision

STAY_COLUMNS = (
    "slot", "uuid", "serial", "model", "from", "to", "installed_gpu_ms",
    *(f"{name.value}_gpu_ms" for name in GpuTimeClass), "incidents", "why",
)  # fmt: skip

# Rows of tenure that were asked for. A node of which no GPU was ever said has only nameless ones: of no interest here.
_SAT = """
with sat as (
  select t.id, t.slot, t.during::tstzrange as during, t.slot_area, t.gpu_id, t.why, g.uuid, g.serial, g.model,
    coalesce(t.commissioned::timestamptz, lower(t.during)) as since
  from tenure t left join gpu g on g.id = t.gpu_id where t.revs @> cast(:rev as bigint)
    and case when cast(:gpu as int) is not null then t.gpu_id = cast(:gpu as int)
      when cast(:slots as int[]) is not null then t.slot = any(cast(:slots as int[]))
      else t.commissioned is not null end)
"""
_ROWS = """
select id, slot, ms_of(lower(during)) as start_ms, case when upper_inf(during) then null else ms_of(upper(during)) end
  as end_ms, gpu_id, why, uuid, serial, model, ms_of(since) as since_ms from sat order by slot, start_ms
"""
_AREA = """
select s.id, e.state::text as state, e.incident_id is not null as linked,
  sum(span_ms(e.during * s.during)::numeric) as gpu_ms,
  sum(span_ms(e.during * s.during)::numeric * e.lost_ppm) as lost_ms_ppm
from sat s join ledger_entry e on e.area && s.slot_area where s.gpu_id is not null and e.revs @> cast(:rev as bigint)
group by 1, 2, 3
"""
# A fault of zero length belongs to the stay that begins with it, like one that lasts.
_SEEN = """
select distinct s.id, ie.incident_id from sat s
join evidence ev on tstzrange(ev.start_at, ev.end_at, '[]') && s.during and ev.slots::int4multirange @> s.slot
join incident_evidence ie on ie.evidence_id = ev.id and ie.revs @> cast(:rev as bigint)
where s.gpu_id is not null
  and (ev.start_at >= lower(s.during) or ev.end_at is null or ev.end_at > lower(s.during))
"""


@dataclass(slots=True)
class _Sitting:
    """One GPU in one slot without a break, however many facts confirm it."""

    slot: int
    since_ms: int
    gpu_id: int | None
    start_ms: int
    end_ms: int | None
    uuid: str | None
    serial: str | None
    model: str | None
    whys: list[str] = field(default_factory=list)
    exact: dict[GpuTimeClass, int] = field(default_factory=lambda: dict.fromkeys(GpuTimeClass, 0))
    incidents: set[int] = field(default_factory=set)


def stays(
    connection: Connection, revision: Revision, gpu: str | None = None, slot: str | None = None
) -> dict[str, Any]:
    """Gives who sat where from when to when, and the GPU time of each stay by class, up to what is booked.

    Args:
        connection: an open snapshot.
        revision: the revision to read.
        gpu: a uuid or a serial; then only that GPU, in order of time.
        slot: NODE/INDEX or site:SITE/NODE/INDEX; then only that slot. Neither: every slot of which a GPU was said.

    Law: the six classes of a stay sum to its `installed_gpu_ms`.

    Raises:
        BadInput: when there is no such GPU or slot at that revision, or the word means several.
    """
    if gpu is not None and slot is not None:
        raise BadInput("--gpu and --slot exclude each other; give one of them")
    nodes = fleet.nodes(connection, revision.rev)
    wanted = None if slot is None else _slots(nodes, slot)
    values: dict[str, object] = {
        "rev": revision.rev,
        "gpu": None if gpu is None else _gpu(connection, revision.rev, gpu),
        "slots": None if wanted is None else sorted({number for number, _ in wanted}),
    }
    sittings, by_row = _sittings(connection, values, wanted)
    for row in connection.execute(text(_SAT + _AREA), values):
        if row.id in by_row:
            name, lost = class_of(State(row.state), row.linked), int(row.lost_ms_ppm)
            lost = int(row.gpu_ms) * PPM if row.state == State.UNKNOWN else lost
            by_row[row.id].exact[name] += lost
            by_row[row.id].exact[GpuTimeClass.GOOD] += int(row.gpu_ms) * PPM - lost
    for row in connection.execute(text(_SAT + _SEEN), values):
        if row.id in by_row:
            by_row[row.id].incidents.add(row.incident_id)
    if gpu is not None:
        sittings.sort(key=lambda sitting: sitting.start_ms)
    names = _names(nodes)
    horizon = None if revision.horizon_ms is None else format_instant(revision.horizon_ms)
    return {
        "revision": revision.rev,
        "horizon": horizon,
        "stays": [_shown(sitting, names[sitting.slot, sitting.since_ms]) for sitting in sittings],
        "total": _total(sittings),
    }


def empty_slots(connection: Connection, rev: int) -> int:
    """Gives how many slots of standing nodes hold no GPU, as far as it was said."""
    count: int = connection.execute(
        text("select count(*) from tenure where gpu_id is null and upper_inf(during) and revs @> cast(:rev as bigint)"),
        {"rev": rev},
    ).scalar_one()
    return count


def _sittings(
    connection: Connection, values: dict[str, object], wanted: set[tuple[int, int]] | None
) -> tuple[list[_Sitting], dict[int, _Sitting]]:
    """Gives the stays, and the stay that each row of tenure is part of; rows that touch and agree are one stay."""
    found: list[_Sitting] = []
    by_row: dict[int, _Sitting] = {}
    for row in connection.execute(text(_SAT + _ROWS), values):
        if wanted is not None and (row.slot, row.since_ms) not in wanted:
            continue
        last = found[-1] if found else None
        here = (row.slot, row.since_ms, row.gpu_id, row.start_ms)
        if last is None or (last.slot, last.since_ms, last.gpu_id, last.end_ms) != here:
            last = _Sitting(*here, row.end_ms, row.uuid, row.serial, row.model)
            found.append(last)
        last.end_ms = row.end_ms
        last.whys += [row.why] if row.why else []
        by_row[row.id] = last
    return found, by_row


def _slots(nodes: Sequence[StoredNode], words: str) -> set[tuple[int, int]]:
    """Gives the slots that NODE/INDEX ever meant, each with the commissioning of its node."""
    site, name = None, words
    if words.startswith("site:"):
        site, _, name = words.removeprefix("site:").partition("/")
    node, slash, index = name.partition("/")
    if not slash or not (index.isascii() and index.isdecimal()) or len(index) > 7:
        raise BadInput(f"--slot: '{words[:80]}' is not NODE/INDEX, such as n1/3")
    here = [n for n in nodes if n.node == node and site in (None, n.site)]
    if not here:
        raise BadInput(f"--slot: unknown node '{node[:80]}' at this revision; gpu-minutes fleet show lists them")
    sites = sorted({n.site for n in here})
    if len(sites) > 1:
        some = " or ".join(f"site:{name_}/{node}/{index}" for name_ in sites)
        raise BadInput(f"--slot: node '{node[:80]}' stands in {len(sites)} sites; write {some}")
    found = {(n.first_slot + int(index), n.start_ms) for n in here if int(index) < n.gpus}
    if not found:
        raise BadInput(f"--slot: node {node} has GPUs 0 to {max(n.gpus for n in here) - 1}, no {index}")
    return found


def _gpu(connection: Connection, rev: int, words: str) -> int:
    rows = connection.execute(
        text(
            "select distinct g.id, g.uuid, g.uuid = :words as by_uuid from gpu g join tenure t on t.gpu_id = g.id "
            "and t.revs @> cast(:rev as bigint) where g.uuid = :words or g.serial = :words order by g.id"
        ),
        {"words": words, "rev": rev},
    ).all()
    found = [row for row in rows if row.by_uuid] or rows
    if not found:
        raise BadInput(f"--gpu: no GPU has the uuid or serial '{words[:80]}' at this revision")
    if len(found) > 1:
        some = ", ".join(row.uuid for row in found[:3])
        raise BadInput(f"--gpu: {len(found)} GPUs have the serial '{words[:80]}'; name one by its uuid: {some}")
    return int(found[0].id)


def _names(nodes: Iterable[StoredNode]) -> dict[tuple[int, int], str]:
    """Gives the words for each slot and commissioning, with the site where a node's name alone says too little."""
    sites: dict[str, set[str]] = defaultdict(set)
    nodes = list(nodes)
    for node in nodes:
        sites[node.node].add(node.site)
    return {
        (node.first_slot + index, node.start_ms): (
            f"site:{node.site}/{node.node}/{index}" if len(sites[node.node]) > 1 else f"{node.node}/{index}"
        )
        for node in nodes
        for index in range(node.gpus)
    }


def _shown(sitting: _Sitting, name: str) -> dict[str, object]:
    return {
        "slot": name,
        "gpu": sitting.uuid or sitting.serial,
        "uuid": sitting.uuid,
        "serial": sitting.serial,
        "model": sitting.model,
        "from": format_instant(sitting.start_ms),
        "to": None if sitting.end_ms is None else format_instant(sitting.end_ms),
        **_classes(sitting.exact),
        "incidents": len(sitting.incidents),
        "why": "; ".join(sitting.whys) or None,
    }


def _total(sittings: Sequence[_Sitting]) -> dict[str, object]:
    exact = {name: sum(sitting.exact[name] for sitting in sittings) for name in GpuTimeClass}
    incidents = {number for sitting in sittings for number in sitting.incidents}
    return {**_classes(exact), "incidents": len(incidents)}


def _classes(exact: dict[GpuTimeClass, int]) -> dict[str, int]:
    """Rounds GPU-ms x 1,000,000 to GPU-ms so that the classes sum to installed time."""
    installed = sum(exact.values()) // PPM
    rounded = largest_remainder([Fraction(exact[name], PPM) for name in GpuTimeClass], installed)
    return {"installed_gpu_ms": installed} | {
        f"{name.value}_gpu_ms": ms for name, ms in zip(GpuTimeClass, rounded, strict=True)
    }
