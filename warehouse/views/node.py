"""One node on one day: what each of its GPUs was when, stretch by stretch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, text

from warehouse.errors import BadInput
from warehouse.model.state import PPM, State
from warehouse.model.time import Window, format_instant, parse_instant
from warehouse.store.revisions import Revision
from warehouse.store.rows import instant

# Few nodes have the name: found first, the rest follows them by index.
_NODE = """
with node as materialized (select id, parent_id from place where kind = 'node' and name = :node)
select site.name as site, site.timezone, lower(r) as low, upper(r) as high
from node join place rack on rack.id = node.parent_id join place hall on hall.id = rack.parent_id
join place site on site.id = hall.parent_id and (cast(:site as text) is null or site.name = :site)
join place_extent x on x.place_k && int4range(node.id, node.id, '[]') and x.revs @> cast(:rev as bigint),
  unnest(x.slots::int4multirange) as r
order by low
"""
# GPUs that sat in these slots, by number inside the node's block.
_INSTALLED = """
select t.slot, ms_of(lower(t.during)) as start_ms,
  case when upper_inf(t.during) then :end_ms else ms_of(upper(t.during)) end as end_ms
from tenure t where t.gpu_id is not null and t.slot_area && area_of(int4range(:low, :high), tstzrange(:start, :end))
  and t.revs @> cast(:rev as bigint) order by t.slot, start_ms
"""
_ENTRIES = """
select lower(e.slots) as low, upper(e.slots) as high, ms_of(lower(e.during)) as start_ms,
  ms_of(upper(e.during)) as end_ms, e.state::text as state, e.lost_ppm, e.cause, e.incident_id, e.basis, e.rule,
  e.held_ppm, case when e.allocation_id is null then null
    else (select array_agg(a.job order by a.job) from allocation a
      where a.id = any(coalesce(e.sharers, array[e.allocation_id]))) end as jobs
from ledger_entry e
where e.area && area_of(int4range(:low, :high), tstzrange(:start, :end)) and e.revs @> cast(:rev as bigint)
order by start_ms
"""


@dataclass(frozen=True, slots=True)
class _Stretch:
    slot: int
    start_ms: int
    end_ms: int
    said: tuple[Any, ...]


_BEHIND = (State.UNKNOWN.value, 0, None, None, "none", "behind", None, None)


def node_day(
    connection: Connection, revision: Revision, node: str, day: str, site: str | None = None
) -> dict[str, object]:
    """Gives the stretches of each GPU of a node on a day of its site's calendar; they sum to its installed time.

    Args:
        connection: a snapshot of the ledger.
        revision: the revision to read.
        node: the node's name.
        day: such as 2026-10-01; a day may have 23 or 25 hours.
        site: the node's site, needed where several have a node of that name.

    Raises:
        BadInput: for an unknown or ambiguous node, and for a day that is none.
    """
    blocks, where, zone = _find(connection, revision.rev, node, site)
    window = _day(day, zone)
    stretches: list[_Stretch] = []
    gpus: dict[int, int] = {}
    for low, high in blocks:
        values: dict[str, object] = {
            "low": low, "high": high, "start": instant(window.start_ms), "end": instant(window.end_ms),
            "end_ms": window.end_ms, "rev": revision.rev,
        }  # fmt: skip
        gpus |= {slot: slot - low for slot in range(low, high)}
        stretches += _stretches(connection, values, window, revision.horizon_ms)
    ordered = sorted(stretches, key=lambda s: (s.slot, s.start_ms))
    return {
        "node": node,
        "site": where,
        "timezone": zone.key,
        "window": {"from": format_instant(window.start_ms), "to": format_instant(window.end_ms)},
        "revision": revision.rev,
        "provisional": revision.horizon_ms is None or window.end_ms > revision.horizon_ms,
        "installed_gpu_ms": sum(s.end_ms - s.start_ms for s in ordered),
        "rows": [_row(s, gpus[s.slot]) for s in _joined(ordered)],
    }


def _find(connection: Connection, rev: int, node: str, site: str | None) -> tuple[list[tuple[int, int]], str, ZoneInfo]:
    rows = connection.execute(text(_NODE), {"rev": rev, "node": node, "site": site}).all()
    sites = sorted({row.site for row in rows})
    if not sites:
        where = "" if site is None else f" at site {site}"
        raise BadInput(f"there is no node '{node[:80]}'{where}; list them: gpu-minutes fleet show")
    if len(sites) > 1:
        raise BadInput(f"node {node} stands in {len(sites)} sites; name one with --site: {', '.join(sites)}")
    return [(row.low, row.high) for row in rows], sites[0], ZoneInfo(rows[0].timezone)


def _day(day: str, zone: ZoneInfo) -> Window:
    try:
        following = date.fromisoformat(day) + timedelta(days=1)
        return Window(parse_instant(day, zone), parse_instant(following.isoformat(), zone))
    except (ValueError, OverflowError) as exc:
        raise BadInput(f"--day: '{day[:40]}' is no day such as 2026-10-01") from exc


def _stretches(
    connection: Connection, values: dict[str, object], window: Window, horizon_ms: int | None
) -> Iterable[_Stretch]:
    """Yields each entry slot by slot, clipped to the block and the day, and what is installed behind the horizon."""
    low, high = int(str(values["low"])), int(str(values["high"]))
    for first, last, start_ms, end_ms, *said in connection.execute(text(_ENTRIES), values):
        for slot in range(max(low, first), min(high, last)):
            yield _Stretch(slot, max(start_ms, window.start_ms), min(end_ms, window.end_ms), tuple(said))
    behind = window.start_ms if horizon_ms is None else max(horizon_ms, window.start_ms)
    if behind < window.end_ms:
        for slot, start_ms, end_ms in connection.execute(text(_INSTALLED), values):
            start, end = max(start_ms, behind), min(end_ms, window.end_ms)
            if start < end:
                yield _Stretch(slot, start, end, _BEHIND)


def _joined(ordered: Iterable[_Stretch]) -> list[_Stretch]:
    """Joins stretches that say the same without a break: entries are cut at midnights of UTC."""
    joined: list[_Stretch] = []
    for stretch in ordered:
        last = joined[-1] if joined else None
        alike = last is not None and (last.slot, last.end_ms, last.said) == (
            stretch.slot,
            stretch.start_ms,
            stretch.said,
        )
        if last is not None and alike:
            joined[-1] = replace(last, end_ms=stretch.end_ms)
        else:
            joined.append(stretch)
    return joined


def _row(stretch: _Stretch, gpu: int) -> dict[str, object]:
    state, lost_ppm, cause, incident_id, basis, rule, held_ppm, jobs = stretch.said
    return {
        "gpu": gpu,
        "state": state,
        "lost_ppm": lost_ppm,
        "cause": cause,
        "incident": None if incident_id is None else f"INC-{incident_id}",
        "jobs": jobs or [],
        "held_ppm": held_ppm if held_ppm is not None else (PPM if jobs else 0),
        "basis": basis,
        "rule": rule,
        "from": format_instant(stretch.start_ms),
        "to": format_instant(stretch.end_ms),
        "gpu_ms": stretch.end_ms - stretch.start_ms,
    }
