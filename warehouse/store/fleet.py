"""Tenure: which GPU sits in which slot from when to when, and how a fleet file changes that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, text

from warehouse.errors import Finding
from warehouse.model.fleet import NodeSpec, Site, TenureBlock
from warehouse.store.places import place_nodes
from warehouse.store.rows import copy_in, revisions_from, slot_ranges, span


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


def load(connection: Connection, nodes: Sequence[NodeSpec], rev: int) -> tuple[FleetChange, list[Finding]]:
    """Adds nodes and their tenure; a node that is already there must say the same, or only add when it retired.

    Returns:
        What changed, and the findings; with findings nothing was written.
    """
    if not nodes:
        return FleetChange(0, 0, 0, ()), []
    stored = _stored_tenures(connection)
    fresh, retiring, repeated, findings = _sort_out(nodes, stored)
    findings += _zone_faults(connection, nodes)
    if findings:
        return FleetChange(0, 0, 0, ()), findings
    touched: list[tuple[int, int | None]] = []
    for spec in retiring:
        assert spec.retired_ms is not None
        _retire(connection, stored[spec.site, spec.node], spec, rev)
        touched.append((spec.retired_ms, None))
    if fresh:
        _add(connection, fresh, rev)
        touched.extend((spec.commissioned_ms, spec.retired_ms) for spec in fresh)
    return FleetChange(len(fresh), repeated, len(retiring), tuple(touched)), []


@dataclass(frozen=True, slots=True)
class _Stored:
    place_id: int
    path: tuple[str, str]
    model: str
    gpus: int
    start_ms: int
    end_ms: int | None
    stranded: bool
    domains: tuple[str | None, str | None, str | None]


def _stored_tenures(connection: Connection) -> dict[tuple[str, str], list[_Stored]]:
    rows = connection.execute(
        text(
            """
            select site.name as site, hall.name as hall, rack.name as rack, node.name as node, node.id, g.model,
              count(*) as gpus, ms_of(lower(t.during)) as start_ms,
              case when upper_inf(t.during) then null else ms_of(upper(t.during)) end as end_ms, t.stranded,
              node.power_domain, node.leaf_switch, node.blast_domain
            from place node join place_extent x on x.place_id = node.id and upper_inf(x.revs)
            join place rack on rack.id = node.parent_id join place hall on hall.id = rack.parent_id
            join place site on site.id = hall.parent_id
            join tenure t on t.slot_k && x.slots::int4multirange and upper_inf(t.revs) join gpu g on g.id = t.gpu_id
            where node.kind = 'node' group by 1, 2, 3, 4, 5, 6, t.during, t.stranded, 11, 12, 13
            """
        )
    )
    found: dict[tuple[str, str], list[_Stored]] = {}
    for r in rows:
        domains = (r.power_domain, r.leaf_switch, r.blast_domain)
        found.setdefault((r.site, r.node), []).append(
            _Stored(r.id, (r.hall, r.rack), r.model, r.gpus, r.start_ms, r.end_ms, r.stranded, domains)
        )
    return found


def _sort_out(
    nodes: Sequence[NodeSpec], stored: dict[tuple[str, str], list[_Stored]]
) -> tuple[list[NodeSpec], list[NodeSpec], int, list[Finding]]:
    fresh: list[NodeSpec] = []
    retiring: list[NodeSpec] = []
    repeated = 0
    findings = []
    retired = {(s.site, s.node, s.commissioned_ms): s.retired_ms for s in nodes if s.retired_ms is not None}
    for spec in dict.fromkeys(nodes):
        known = stored.get((spec.site, spec.node), [])
        same = next((k for k in known if k.start_ms == spec.commissioned_ms), None)
        reason = _contradicts(spec, known, same)
        if reason is not None:
            findings.append(Finding(f"node {spec.node}", reason))
        elif same is None and any(
            _overlaps(spec, k.start_ms, k.end_ms or retired.get((spec.site, spec.node, k.start_ms))) for k in known
        ):
            findings.append(
                Finding(f"node {spec.node}", "its tenure overlaps the one in the ledger; retire that one first")
            )
        elif same is None:
            fresh.append(spec)
        elif same.end_ms is None and spec.retired_ms is not None:
            retiring.append(spec)
        else:
            repeated += 1
    return fresh, retiring, repeated, findings


def _contradicts(spec: NodeSpec, known: Sequence[_Stored], same: _Stored | None) -> str | None:
    """Gives the reason why a node cannot be what this row says, None where it can."""
    domains = (spec.power_domain, spec.leaf_switch, spec.blast_domain)
    for place in (k for k in known if k.path == (spec.hall, spec.rack)):
        if any(said is not None and said != before for said, before in zip(domains, place.domains, strict=True)):
            return "stands there with another power_domain, leaf_switch or blast_domain, which cannot change yet"
    if same is None:
        return None
    says = (same.path, same.model, same.gpus, same.stranded)
    if says != ((spec.hall, spec.rack), spec.model, spec.gpus, spec.stranded):
        return (
            f"is already in the ledger as {same.gpus} x {same.model} in {'/'.join(same.path)}; "
            "retire it there and commission it anew, history is not rewritten"
        )
    if None not in (same.end_ms, spec.retired_ms) and same.end_ms != spec.retired_ms:
        return "is already retired at another time in the ledger"
    return None


def _overlaps(spec: NodeSpec, start_ms: int, end_ms: int | None) -> bool:
    return (end_ms is None or end_ms > spec.commissioned_ms) and (spec.retired_ms is None or spec.retired_ms > start_ms)


def _zone_faults(connection: Connection, nodes: Sequence[NodeSpec]) -> list[Finding]:
    rows = connection.execute(text("select name, timezone from place where kind = 'site'"))
    known = {row.name: row.timezone for row in rows}
    return [
        Finding(f"site {site}", f"is in time zone {known[site]}, not {zone}")
        for site, zone in sorted({(spec.site, spec.timezone) for spec in nodes if spec.timezone})
        if site in known and known[site] != zone
    ]


def _retire(connection: Connection, known: list[_Stored], spec: NodeSpec, rev: int) -> None:
    place_id = next(k.place_id for k in known if k.start_ms == spec.commissioned_ms)
    closed = connection.execute(
        text(
            """
            update tenure set revs = int8range(lower(revs), :rev) where upper_inf(revs)
              and slot <@ (select slots::int4multirange from place_extent where place_id = :place and upper_inf(revs))
              and lower(during) = :start
            returning gpu_id, slot, stranded, contract
            """
        ),
        {"rev": rev, "place": place_id, "start": span(spec.commissioned_ms, None).lower},
    ).all()
    during = span(spec.commissioned_ms, spec.retired_ms)
    _copy_tenure(connection, [(r.gpu_id, r.slot, during, r.stranded, r.contract, revisions_from(rev)) for r in closed])


def _add(connection: Connection, fresh: Sequence[NodeSpec], rev: int) -> None:
    tenure = [
        (spec, slot) for spec, first in place_nodes(connection, fresh, rev) for slot in range(first, first + spec.gpus)
    ]
    ids = _reserve(connection, "gpu", len(tenure))
    copy_in(
        connection, "gpu", ("id", "model", "revs"), ("int4", "text", "int8range"),
        [(gpu, spec.model, revisions_from(rev)) for gpu, (spec, _) in zip(ids, tenure, strict=True)],
    )  # fmt: skip
    rows = [
        (gpu, slot, span(spec.commissioned_ms, spec.retired_ms), spec.stranded, spec.contract, revisions_from(rev))
        for gpu, (spec, slot) in zip(ids, tenure, strict=True)
    ]
    _copy_tenure(connection, rows)


def _copy_tenure(connection: Connection, rows: Sequence[Sequence[object]]) -> None:
    columns = ("gpu_id", "slot", "during", "stranded", "contract", "revs")
    copy_in(connection, "tenure", columns, ("int4", "int4", "tstzrange", "bool", "text", "int8range"), rows)


def _reserve(connection: Connection, table: str, count: int) -> list[int]:
    return list(
        connection.execute(
            text("select nextval(pg_get_serial_sequence(:table, 'id')) from generate_series(1, :count)"),
            {"table": table, "count": count},
        ).scalars()
    )
