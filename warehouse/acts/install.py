"""Says which GPU sits in which slot since when: swaps, spares, repairs, empty slots.

A row of the file is a fact of one slot and one instant, and holds until the slot's next fact or the node's end. Tenure
begins anew at every fact, also where it only confirms, so that facts told late and in any order give the same tenure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from sqlalchemy import Connection, Engine

from warehouse.acts.naming import Placed, identify
from warehouse.errors import Finding, bad_rows
from warehouse.model.fleet import Placing, StoredNode
from warehouse.model.time import format_instant
from warehouse.pipeline import Act, finish, next_revision
from warehouse.store import fleet, gpus, revisions
from warehouse.store.gpus import Gpu, Stay

Span = tuple[int, int | None]

# So many new rows of tenure move the planner's statistics.
_ANALYSE_ROWS = 1_000
_FAR_MS = 1 << 62


@dataclass(frozen=True, slots=True)
class Installed:
    """What an act did: rows that said something new, how many of them empty a slot, rows that were known, new names."""

    rev: int
    changed: bool
    placed: int = 0
    emptied: int = 0
    repeated: int = 0
    named: int = 0


@dataclass(frozen=True, slots=True)
class _Plan:
    placed: Sequence[Placed]
    repeated: int
    named: Sequence[Gpu]
    closed: Sequence[int]
    opened: Sequence[Stay]
    touched: Sequence[Span]


def install(engine: Engine, placings: Sequence[Placing], act: Act, *, revise: bool = False) -> Installed:
    """Stores which GPU sits where since when, and books again the time in which capacity or a model changed.

    Args:
        engine: the ledger's database.
        placings: the rows of a file, in any order.
        act: who, when, why.
        revise: True lets a fact of a known slot and instant say something else.

    Raises:
        BadInput: a line a fault; then nothing is stored.
        LawBroken: when the derived tiling breaks a law; then nothing is stored either.
    """
    with engine.begin() as connection:
        revisions.lock_writer(connection)
        rev, before = next_revision(connection)
        plan = _plan(connection, placings, act.now_ms, rev, revise)
        if not plan.opened:
            return Installed(rev - 1, False, repeated=plan.repeated)
        gpus.write(connection, plan.named, plan.closed, plan.opened, rev)
        if len(plan.opened) >= _ANALYSE_ROWS:
            revisions.analyse(connection)
        done = finish(connection, act, rev, before, plan.touched, revisions.digest(placings))
        emptied = sum(item.gpu is None for item in plan.placed)
        return Installed(done.rev, True, len(plan.placed), emptied, plan.repeated, len(plan.named))


def _plan(connection: Connection, placings: Sequence[Placing], now_ms: int, rev: int, revise: bool) -> _Plan:
    nodes = fleet.nodes(connection, rev)
    placed, findings = _find_slots(nodes, placings, now_ms)
    names = gpus.known(connection, {p.uuid for p in placings if p.uuid}, {p.serial for p in placings if p.serial})
    stored = gpus.stays(connection, {item.slot for item in placed}, {gpu.id for gpu in names})
    about = gpus.by_id(connection, (stay.gpu_id for stay in stored if stay.gpu_id is not None))
    placed, named, unclear = identify(connection, placed, names, stored, about)
    findings += unclear
    about |= {gpu.id: gpu for gpu in named}
    standing: dict[int, list[Stay]] = defaultdict(list)
    for stay in sorted(stored, key=lambda stay: (stay.slot, stay.start_ms)):
        standing[stay.slot].append(stay)
    fresh, repeated, clashes = _apply(placed, standing, about, revise)
    findings += clashes
    if not findings:
        findings += _in_two_slots(placed, standing, about, nodes)
    if findings:
        raise bad_rows(findings)
    wanted = {stay for row in standing.values() for stay in row}
    closed = [stay for stay in stored if stay not in wanted]
    opened = sorted(wanted - stored.keys(), key=lambda stay: (stay.slot, stay.start_ms))
    models = {gpu.id: gpu.model for gpu in about.values()}
    return _Plan(
        fresh, repeated, named, [stored[stay] for stay in closed], opened, _differences(closed, opened, models)
    )


def _find_slots(
    nodes: Sequence[StoredNode], placings: Sequence[Placing], now_ms: int
) -> tuple[list[Placed], list[Finding]]:
    by_name: dict[str, list[StoredNode]] = defaultdict(list)
    for node in nodes:
        by_name[node.node].append(node)
    placed, findings = [], []
    for placing in placings:
        here = [n for n in by_name[placing.node] if placing.site in (None, n.site)]
        standing = [n for n in here if n.stands_at(placing.start_ms)]
        fault = _misplaced(placing, here, standing, now_ms)
        if fault is None:
            placed.append(Placed(placing, standing[0], standing[0].first_slot + placing.index))
        else:
            findings.append(Finding(f"{placing.where}, column {fault[0]}", fault[1]))
    return placed, findings


def _misplaced(
    placing: Placing, here: Sequence[StoredNode], standing: Sequence[StoredNode], now_ms: int
) -> tuple[str, str] | None:
    """Gives the column and the reason why a row names no slot, None where it names one."""
    at = format_instant(placing.start_ms)
    if placing.start_ms > now_ms:
        return "from", f"{at} is in the future; say it when it has happened"
    if not here:
        in_site = f" in site {placing.site}" if placing.site else ""
        return "node", f"unknown node '{placing.node}'{in_site}; load it first: gpu-minutes fleet load"
    if not standing:
        spans = "; ".join(_span(node) for node in sorted(here, key=lambda node: node.start_ms)[-3:])
        return "from", f"nothing is installed in {placing.node} at {at}; the fleet file has it {spans}"
    sites = sorted(node.site for node in standing)
    if len(sites) > 1:
        return "site", f"node {placing.node} stands in {len(sites)} sites; write {' or '.join(sites)}"
    if placing.index >= standing[0].gpus:
        return "index", f"node {placing.node} has GPUs 0 to {standing[0].gpus - 1} at {at}, no {placing.index}"
    return None


def _span(node: StoredNode) -> str:
    until = "until now" if node.end_ms is None else f"to {format_instant(node.end_ms)}"
    return f"from {format_instant(node.start_ms)} {until}"


def _apply(
    placed: Iterable[Placed], standing: dict[int, list[Stay]], about: Mapping[int, Gpu], revise: bool
) -> tuple[list[Placed], int, list[Finding]]:
    """Cuts what stands at every new fact; gives the new facts, how many were known, and those that contradict."""
    fresh, findings = [], []
    repeated = 0
    said: dict[tuple[int, int], Placed] = {}
    for item in placed:
        start_ms, gpu_id = item.placing.start_ms, item.gpu.id if item.gpu else None
        row = standing[item.slot]
        at = next(n for n, stay in enumerate(row) if stay.start_ms <= start_ms < (stay.end_ms or _FAR_MS))
        stay = row[at]
        first = said.setdefault((item.slot, start_ms), item)
        holds = about.get(stay.gpu_id) if stay.gpu_id is not None else None
        if stay.start_ms < start_ms:
            cut = replace(stay, end_ms=start_ms)
            row[at : at + 1] = [cut, replace(stay, start_ms=start_ms, gpu_id=gpu_id, why=item.placing.why)]
        elif stay.gpu_id == gpu_id:
            repeated += 1
            continue
        elif first is not item:
            findings.append(_clash(item, f"says something else of {item.name} at this instant than {first.where}"))
            continue
        elif (holds is not None and not holds.named) or revise:
            row[at] = replace(stay, gpu_id=gpu_id, why=item.placing.why)
        else:
            known = "stands empty" if holds is None else f"holds {holds}"
            since = format_instant(start_ms)
            reason = f"in the ledger {item.name} {known} since {since}; --revise records a correction"
            findings.append(_clash(item, reason))
            continue
        fresh.append(item)
    return fresh, repeated, findings


def _clash(item: Placed, reason: str) -> Finding:
    return Finding(f"{item.placing.where}, column {item.column}", reason)


def _in_two_slots(
    placed: Sequence[Placed],
    standing: Mapping[int, Sequence[Stay]],
    about: Mapping[int, Gpu],
    nodes: Sequence[StoredNode],
) -> list[Finding]:
    """Gives a finding for each GPU that the rows would leave in two slots at once."""
    sits: dict[int, list[Stay]] = defaultdict(list)
    for row in standing.values():
        for stay in row:
            if stay.gpu_id is not None and about[stay.gpu_id].named:
                sits[stay.gpu_id].append(stay)
    rows = {(item.slot, item.placing.start_ms): item for item in placed}
    last = {item.slot: item for item in placed}
    findings = []
    for gpu_id, found in sits.items():
        found.sort(key=lambda stay: (stay.start_ms, stay.slot))
        for early, late in pairwise(found):
            if late.start_ms >= (early.end_ms or _FAR_MS):
                continue
            item = (
                rows.get((late.slot, late.start_ms))
                or rows.get((early.slot, early.start_ms))
                or last.get(late.slot)
                or last[early.slot]
            )
            still, since = _name(nodes, early), format_instant(early.start_ms)
            both = format_instant(late.start_ms)
            reason = (
                f"{about[gpu_id]} would sit in two slots from {both}: still in {still}, since {since}, and in "
                f"{_name(nodes, late)}; add a row that says what {still} holds at {both} or before "
                "(blank uuid and serial: it is empty)"
            )
            findings.append(_clash(item, reason))
            break
    return findings


def _name(nodes: Sequence[StoredNode], stay: Stay) -> str:
    """Gives a slot in words, with its site where another site has a node of the same name."""
    node = next(
        n for n in nodes if n.start_ms == stay.commissioned_ms and n.first_slot <= stay.slot < n.first_slot + n.gpus
    )
    name = f"{node.node}/{stay.slot - node.first_slot}"
    return f"site:{node.site}/{name}" if len({n.site for n in nodes if n.node == node.node}) > 1 else name


def _differences(closed: Iterable[Stay], opened: Iterable[Stay], models: Mapping[int, str]) -> list[Span]:
    """Gives the spans in which a slot holds another model than before, or a GPU instead of none."""
    edges: dict[int, set[int]] = defaultdict(set)
    pairs: dict[int, tuple[list[Stay], list[Stay]]] = defaultdict(lambda: ([], []))
    for side, stays in enumerate((closed, opened)):
        for stay in stays:
            pairs[stay.slot][side].append(stay)
            edges[stay.slot] |= {stay.start_ms, stay.end_ms or _FAR_MS}

    def model(stays: Sequence[Stay], at_ms: int) -> str | None:
        here = next((s for s in stays if s.start_ms <= at_ms < (s.end_ms or _FAR_MS)), None)
        return None if here is None or here.gpu_id is None else models[here.gpu_id]

    found: set[Span] = set()
    for slot, (before, after) in pairs.items():
        cuts = sorted(edges[slot])
        for start_ms, end_ms in pairwise(cuts):
            if model(before, start_ms) != model(after, start_ms):
                found.add((start_ms, None if end_ms == _FAR_MS else end_ms))
    return sorted(found, key=lambda span: (span[0], span[1] or _FAR_MS))
