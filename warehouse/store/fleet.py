"""Tenure: which GPU sits in which slot from when to when, and how a fleet file changes that.

A node is slots that stand together over one span; its tenure is cut where a GPU changes. A row of tenure without a GPU
is a slot that stands empty: it keeps its number and its place in the node, and counts for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, text

from warehouse.errors import Finding
from warehouse.model.fleet import NodeSpec, Site, StoredNode, TenureBlock
from warehouse.model.time import format_instant
from warehouse.store.places import place_nodes
from warehouse.store.rows import copy_in, instant, reserve, revisions_from, slot_ranges, span


@dataclass(frozen=True, slots=True)
class FleetChange:
    """What loading a fleet did: nodes added, nodes already there, and the spans whose capacity changed."""

    added: int
    repeated: int
    retired: int
    touched: tuple[tuple[int, int | None], ...]


def zones(connection: Connection, rev: int | None = None) -> list[str]:
    """Gives the distinct time zones of the sites known at a revision, or now."""
    return list(
        connection.execute(
            text(
                "select distinct timezone from place where kind = 'site' "
                "and rev <= coalesce(cast(:rev as bigint), rev) order by 1"
            ),
            {"rev": rev},
        ).scalars()
    )


def sites(connection: Connection, rev: int) -> list[Site]:
    """Gives the sites known at a revision, by name."""
    rows = connection.execute(
        text(
            "select p.id, p.name, x.slots, p.timezone, p.currency from place p "
            "join place_extent x on x.place_id = p.id and x.revs @> cast(:rev as bigint) "
            "where p.kind = 'site' order by p.name"
        ),
        {"rev": rev},
    )
    return [Site(r.id, r.name, slot_ranges(r.slots), r.timezone, r.currency) for r in rows]


def tenure_blocks(connection: Connection, rev: int) -> list[TenureBlock]:
    """Gives tenure at a revision, packed: slots of one model, contract and span in one block."""
    rows = connection.execute(
        text(
            """
            select range_agg(int4range(t.slot, t.slot + 1)) as slots, ms_of(lower(t.during)) as start_ms,
              case when upper_inf(t.during) then null else ms_of(upper(t.during)) end as end_ms, g.model, t.stranded,
              t.contract
            from tenure t join gpu g on g.id = t.gpu_id where t.revs @> cast(:rev as bigint)
            group by t.during, g.model, t.stranded, t.contract order by min(t.slot), t.during
            """
        ),
        {"rev": rev},
    )
    return [TenureBlock(slot_ranges(r.slots), r.start_ms, r.end_ms, r.model, r.stranded, r.contract) for r in rows]


# The slots of nodes as the fleet file gave them, whatever sat in them since: (slot, since, until, model, ...).
_FRAME = """
with frame as (
  select t.slot, coalesce(t.commissioned::timestamptz, lower(t.during)) as since,
    case when bool_or(upper_inf(t.during)) then null else max(upper(t.during)) end as until,
    coalesce(t.said_model, g.model) as model, t.stranded, t.contract
  from tenure t left join gpu g on g.id = t.gpu_id where t.revs @> cast(:rev as bigint)
  group by 1, 2, 4, 5, 6),
block as (
  select range_agg(int4range(slot, slot + 1)) as slots, since, until, model, stranded, contract
  from frame group by 2, 3, 4, 5, 6)
"""
_NODES = """
select node.id, site.name as site, hall.name as hall, rack.name as rack, node.name as node,
  lower(part) as first_slot, upper(part) - lower(part) as gpus, b.model, ms_of(b.since) as start_ms,
  ms_of(b.until) as end_ms, b.stranded, b.contract, node.power_domain, node.leaf_switch, node.blast_domain,
  site.timezone, site.currency
from block b, unnest(b.slots) as run
join place_extent x on x.slots && int4multirange(run) and x.revs @> cast(:rev as bigint)
join place node on node.kind = 'node' and node.id = x.place_id
join place rack on rack.id = node.parent_id join place hall on hall.id = rack.parent_id
join place site on site.id = hall.parent_id, unnest(x.slots * int4multirange(run)) as part
order by first_slot, start_ms
"""


def frames(connection: Connection, rev: int) -> list[TenureBlock]:
    """Gives the slots that nodes have at a revision, with a GPU in them or not; an index in a node counts these."""
    rows = connection.execute(
        text(
            _FRAME + "select slots, ms_of(since) as start_ms, ms_of(until) as end_ms, model, stranded, contract "
            "from block order by slots, start_ms"
        ),
        {"rev": rev},
    )
    return [TenureBlock(slot_ranges(r.slots), r.start_ms, r.end_ms, r.model, r.stranded, r.contract) for r in rows]


def since_ms(connection: Connection, rev: int) -> int | None:
    """Gives the millisecond of the first commissioning at a revision, None where nothing was ever installed."""
    first: int | None = connection.execute(
        text("select ms_of(min(lower(during))) from tenure where revs @> cast(:rev as bigint)"), {"rev": rev}
    ).scalar_one()
    return first


def nodes(connection: Connection, rev: int) -> list[StoredNode]:
    """Gives the nodes at a revision as the fleet file put them there, in the order of their slots, then of time."""
    rows = connection.execute(text(_FRAME + _NODES), {"rev": rev})
    return [
        StoredNode(
            r.id, r.site, r.hall, r.rack, r.node, r.first_slot, r.gpus, r.model, r.start_ms, r.end_ms, r.stranded,
            r.contract, (r.power_domain, r.leaf_switch, r.blast_domain), r.timezone, r.currency,
        )
        for r in rows
    ]  # fmt: skip


def load(connection: Connection, nodes: Sequence[NodeSpec], rev: int) -> tuple[FleetChange, list[Finding]]:
    """Adds nodes and their tenure; a node that is already there must say the same, or only add when it retired.

    Returns:
        What changed, and the findings; with findings nothing was written.
    """
    if not nodes:
        return FleetChange(0, 0, 0, ()), []
    stored = _stored_nodes(connection, rev)
    fresh, retiring, repeated, findings = _sort_out(nodes, stored)
    findings += _site_faults(connection, nodes)
    findings += [fault for spec, node in retiring for fault in _changes_after(connection, spec, node)]
    if findings:
        return FleetChange(0, 0, 0, ()), findings
    touched: list[tuple[int, int | None]] = []
    for spec, node in retiring:
        assert spec.retired_ms is not None
        _retire(connection, node, spec.retired_ms, rev)
        touched.append((spec.retired_ms, None))
    if fresh:
        _add(connection, fresh, rev)
        touched.extend((spec.commissioned_ms, spec.retired_ms) for spec in fresh)
    return FleetChange(len(fresh), repeated, len(retiring), tuple(touched)), []


def _stored_nodes(connection: Connection, rev: int) -> dict[tuple[str, str], list[StoredNode]]:
    found: dict[tuple[str, str], list[StoredNode]] = {}
    for node in nodes(connection, rev):
        found.setdefault((node.site, node.node), []).append(node)
    return found


def _sort_out(
    nodes: Sequence[NodeSpec], stored: dict[tuple[str, str], list[StoredNode]]
) -> tuple[list[NodeSpec], list[tuple[NodeSpec, StoredNode]], int, list[Finding]]:
    fresh: list[NodeSpec] = []
    retiring: list[tuple[NodeSpec, StoredNode]] = []
    repeated = 0
    findings = []
    retired = {(s.site, s.node, s.commissioned_ms): s.retired_ms for s in nodes if s.retired_ms is not None}
    for spec in dict.fromkeys(nodes):
        known = stored.get((spec.site, spec.node), [])
        same = next((k for k in known if k.start_ms == spec.commissioned_ms), None)
        ends = [k.end_ms or retired.get((spec.site, spec.node, k.start_ms)) for k in known]
        clash = next((k for k, end in zip(known, ends, strict=True) if _overlaps(spec, k.start_ms, end)), None)
        column, reason = _contradicts(spec, known, same) or ("", "")
        if reason:
            findings.append(_fault(spec, column, reason))
        elif same is None and clash is not None:
            findings.append(_fault(spec, "commissioned", _overlap_reason(spec, clash)))
        elif same is None:
            fresh.append(spec)
        elif same.end_ms is None and spec.retired_ms is not None:
            retiring.append((spec, same))
        else:
            repeated += 1
    return fresh, retiring, repeated, findings


def _fault(spec: NodeSpec, column: str, reason: str) -> Finding:
    where = f"{spec.where}, column {column}: " if spec.where else ""
    return Finding(f"{where}node {spec.node}", reason)


def _contradicts(spec: NodeSpec, known: Sequence[StoredNode], same: StoredNode | None) -> tuple[str, str] | None:
    """Gives the column and the reason why a node cannot be what this row says, None where it can."""
    domains = (spec.power_domain, spec.leaf_switch, spec.blast_domain)
    names = ("power_domain", "leaf_switch", "blast_domain")
    for place in (k for k in known if (k.hall, k.rack) == (spec.hall, spec.rack)):
        for name, said, before in zip(names, domains, place.domains, strict=True):
            if said is not None and said != before:
                return name, "stands there with another power_domain, leaf_switch or blast_domain, which cannot change"
    if same is None:
        return None
    says = (same.hall, same.rack, same.model, same.gpus, same.stranded)
    if says != (spec.hall, spec.rack, spec.model, spec.gpus, spec.stranded):
        return "node", (
            f"is already in the ledger as {same.gpus} x {same.model} in {same.path} since "
            f"{format_instant(same.start_ms)}; to move or rebuild it, give that row its retired, and add a row "
            "with this place and a later commissioned"
        )
    if spec.contract is not None and spec.contract != same.contract:
        return "contract", (
            f"is already in the ledger {_on(same.contract)} since {format_instant(same.start_ms)}, not on "
            f"{spec.contract}; to change it, give that row its retired, and add a row with a later commissioned"
        )
    if None not in (same.end_ms, spec.retired_ms) and same.end_ms != spec.retired_ms:
        assert same.end_ms is not None
        return "retired", f"is already retired at another time in the ledger: {format_instant(same.end_ms)}"
    return None


def _on(contract: str | None) -> str:
    return "on no contract" if contract is None else f"on contract {contract}"


def _overlap_reason(spec: NodeSpec, clash: StoredNode) -> str:
    until = "and was never retired" if clash.end_ms is None else f"until {format_instant(clash.end_ms)}"
    reason = f"its tenure overlaps the one in the ledger: it stands in {clash.path} since "
    reason += f"{format_instant(clash.start_ms)} {until}; "
    if clash.end_ms is not None:
        return reason + "let this row begin after that"
    return reason + f"add that row with retired at {format_instant(spec.commissioned_ms)} or before to this file"


def _overlaps(spec: NodeSpec, start_ms: int, end_ms: int | None) -> bool:
    return (end_ms is None or end_ms > spec.commissioned_ms) and (spec.retired_ms is None or spec.retired_ms > start_ms)


def _site_faults(connection: Connection, nodes: Sequence[NodeSpec]) -> list[Finding]:
    """A site's zone and currency are what its books were kept in: neither changes, and neither comes later."""
    rows = connection.execute(text("select name, timezone, currency from place where kind = 'site'"))
    known = {row.name: row for row in rows}
    first: dict[tuple[str, str, str], NodeSpec] = {}
    for spec in nodes:
        for column, said in (("timezone", spec.timezone), ("currency", spec.currency)):
            if spec.site in known and said is not None:
                first.setdefault((spec.site, column, said), spec)
    findings = []
    for (site, column, said), spec in first.items():
        before = getattr(known[site], column)
        if said == before:
            continue
        where = f"{spec.where}, column {column}: " if spec.where else ""
        reason = f"is in time zone {before}, not {said}; the zone of a site cannot change"
        if column == "currency":
            has = "without a currency" if before is None else f"in {before}"
            reason = f"is in the ledger {has}, not in {said}; the currency of a site cannot change"
        findings.append(Finding(f"{where}site {site}", reason))
    return findings


def _changes_after(connection: Connection, spec: NodeSpec, node: StoredNode) -> list[Finding]:
    """A node cannot have retired before something that is known to have happened in it."""
    later = connection.execute(
        text(
            "select slot, ms_of(lower(during)) as at_ms from tenure where upper_inf(revs) and slot >= :first "
            "and slot < :last and commissioned = :start and lower(during) >= :retired order by 2, 1 limit 1"
        ),
        {
            "first": node.first_slot,
            "last": node.first_slot + node.gpus,
            "start": instant(node.start_ms),
            "retired": instant(spec.retired_ms),
        },
    ).first()
    if later is None:
        return []
    slot = f"{node.node}/{later.slot - node.first_slot}"
    reason = f"the ledger knows of a GPU change in {slot} at {format_instant(later.at_ms)}; retire it after that"
    return [_fault(spec, "retired", reason)]


def _retire(connection: Connection, node: StoredNode, retired_ms: int, rev: int) -> None:
    """Ends the node's open tenure: of each slot the one row that has no end yet."""
    closed = connection.execute(
        text(
            "update tenure set revs = int8range(lower(revs), :rev) where upper_inf(revs) and slot >= :first "
            "and slot < :last and upper_inf(during) and coalesce(commissioned::timestamptz, lower(during)) = :start "
            "returning ms_of(lower(during)) as start_ms, gpu_id, slot, stranded, contract, commissioned, "
            "said_model, why"
        ),
        {
            "rev": rev,
            "first": node.first_slot,
            "last": node.first_slot + node.gpus,
            "start": instant(node.start_ms),
        },
    ).all()
    copy_tenure(
        connection,
        [(span(r.start_ms, retired_ms), revisions_from(rev), *(getattr(r, word) for word in TENURE_WORDS))
         for r in closed],
    )  # fmt: skip


def _add(connection: Connection, fresh: Sequence[NodeSpec], rev: int) -> None:
    tenure = [
        (spec, slot) for spec, first in place_nodes(connection, fresh, rev) for slot in range(first, first + spec.gpus)
    ]
    ids = reserve(connection, "gpu", len(tenure))
    copy_in(
        connection, "gpu", ("id", "model", "revs"), ("int4", "text", "int8range"),
        [(gpu, spec.model, revisions_from(rev)) for gpu, (spec, _) in zip(ids, tenure, strict=True)],
    )  # fmt: skip
    copy_tenure(
        connection,
        [
            (
                span(spec.commissioned_ms, spec.retired_ms), revisions_from(rev), gpu, slot, spec.stranded,
                spec.contract, None, None, None,
            )
            for gpu, (spec, slot) in zip(ids, tenure, strict=True)
        ],
    )  # fmt: skip


# What a row of tenure says beside its time and its revisions, with the types of a binary load.
TENURE_WORDS = {
    "gpu_id": "int4", "slot": "int4", "stranded": "bool", "contract": "text", "commissioned": "timestamptz",
    "said_model": "text", "why": "text",
}  # fmt: skip


def copy_tenure(connection: Connection, rows: Sequence[Sequence[object]]) -> None:
    """Loads rows of tenure: time, revisions, and then `TENURE_WORDS` in order."""
    columns = ("during", "revs", *TENURE_WORDS)
    copy_in(connection, "tenure", columns, ("tstzrange", "int8range", *TENURE_WORDS.values()), rows)
