"""Holes in the monitoring itself: no samples of a node's exporter target at all.

A range query carries the last value forward for minutes and so paints over a server that was down. Only the
timestamps of raw samples show the hole, from the last sample before it to the first one after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise

from warehouse.detect.runs import Grid, Hole
from warehouse.detect.stitch import detector_of, evidence_key, extend
from warehouse.detect.words import SOURCE, Finding, Resolver
from warehouse.evidence.prometheus import Series
from warehouse.model.evidence import Evidence
from warehouse.model.slots import normalise
from warehouse.model.state import State
from warehouse.model.time import Window

KEY = "no_samples"
VERSION = 1
CAUSE_CODE = "platform/monitoring_gap"
DETAIL = "Prometheus has no samples of the exporter's target."

Holes = Mapping[str, Sequence[Hole]]


@dataclass(frozen=True, slots=True)
class Watch:
    """What was watched: per node the holes, and the time of its exporter's last scrape in milliseconds.

    `ours` are the nodes that our own exporter watches: there, no other exporter is asked. `exporters` are those of
    which a target was scraped at all, well or not.
    """

    holes: Holes
    last_seen: Mapping[str, int]
    ours: Set[str] = frozenset()
    exporters: Set[str] = frozenset()


def times_by_node(samples: Iterable[tuple[str, Series]]) -> dict[str, list[int]]:
    """Gives the sorted times at which any exporter target of each node was scraped, well or not."""
    times: dict[str, set[int]] = {}
    for node, series in samples:
        if node:
            times.setdefault(node, set()).update(at_ms for at_ms, _ in series.points)
    return {node: sorted(found) for node, found in times.items()}


def nameless(samples: Iterable[tuple[str, Series]]) -> list[Finding]:
    """Names targets without the label `node`: nothing that they say can be placed."""
    lost = [series.labels.get("instance", "?") for node, series in samples if not node]
    return [Finding(SOURCE, instance, "a scrape target of the exporter has no label node") for instance in lost]


def find_holes(
    times: Mapping[str, Sequence[int]], known: Mapping[str, int], horizon_ms: int, hole_ms: int
) -> dict[str, list[Hole]]:
    """Gives the holes of each node.

    Args:
        times: sample times per node in milliseconds, sorted.
        known: nodes with a hole that is already told, and when that began: it may lie before all samples.
        horizon_ms: end of what was read.
        hole_ms: samples at most this far apart leave no hole.
    """
    holes: dict[str, list[Hole]] = {}
    for node in sorted(times.keys() | known.keys()):
        seen = times.get(node, ())
        found = [Hole(left, right) for left, right in pairwise(seen) if right - left > hole_ms]
        if seen and horizon_ms - seen[-1] > hole_ms:
            found.append(Hole(seen[-1], None))
        began_ms = known.get(node)
        if began_ms is not None and (not seen or began_ms < seen[0]):
            found.insert(0, Hole(began_ms, seen[0] if seen else None))
        if found:
            holes[node] = found
    return holes


def unseen_heads(times: Mapping[str, Sequence[int]], known: Mapping[str, int], grid: Grid, hole_ms: int) -> Holes:
    """Gives the time before each late first sample: the node is new then, or came out of an older hole.

    Either way nothing was seen of it, so that nothing may be concluded; only a longer look tells which it was.
    """
    late_ms = grid.start_ms + hole_ms
    return {
        node: [Hole(grid.start_ms, seen[0])]
        for node, seen in times.items()
        if seen and seen[0] > late_ms and node not in known
    }


def known_starts(known: Iterable[Evidence]) -> dict[str, int]:
    """Gives the nodes in told holes and the earliest start of each, in milliseconds."""
    starts: dict[str, int] = {}
    for evidence in known:
        for node in evidence.scope.split("+"):
            starts[node] = min(evidence.start_ms, starts.get(node, evidence.start_ms))
    return starts


def is_hole(evidence: Evidence) -> bool:
    """Tells whether evidence was made here."""
    return detector_of(evidence) == KEY


def tell_holes(
    holes: Holes, known: Sequence[Evidence], window: Window, resolver: Resolver
) -> tuple[list[Evidence], list[Finding]]:
    """Makes evidence of holes: `unknown` over exactly the hole.

    Nodes that fell silent at one instant share one evidence up to the first that speaks again; each of the others
    goes on by itself from there. That split needs no look into the future, so any cut into windows gives the same.
    """
    told: list[Evidence] = []
    findings = []
    groups = _groups(holes, known)
    for first, members in groups:
        placed = {node: hole for node, hole in members.items() if resolver.node(node) is not None}
        findings += [Finding(SOURCE, node, "not a node of the fleet") for node in members if node not in placed]
        if not placed:
            continue
        ends = [hole.end_ms for hole in placed.values() if hole.end_ms is not None]
        split_ms = min(ends) if ends else None
        if first is None:
            start_ms = next(iter(placed.values())).start_ms
            told.append(_evidence(sorted(placed), start_ms, split_ms, resolver))
        else:
            told.append(extend(first, split_ms, window))
        for node, hole in placed.items():
            if split_ms is not None and hole.end_ms != split_ms:
                rest = _evidence([node], split_ms, hole.end_ms, resolver)
                same = [evidence for evidence in known if evidence.key == rest.key]
                told.append(extend(same[0], hole.end_ms, window) if same else rest)
    followed = {first.key for first, _ in groups if first is not None} | {item.key for item in told}
    # Samples that came late have filled it: what was told keeps no length.
    told += [replace(item, end_ms=item.start_ms) for item in known if item.end_ms is None and item.key not in followed]
    names = {evidence.key for evidence in known}
    reaching = [item for item in told if item.key in names or item.end_ms is None or item.end_ms > window.start_ms]
    return reaching, findings


def _groups(holes: Holes, known: Sequence[Evidence]) -> list[tuple[Evidence | None, dict[str, Hole]]]:
    """Groups holes by the evidence that already tells of them, and new ones by the instant they began."""
    by_known: dict[str, tuple[Evidence | None, dict[str, Hole]]] = {}
    by_start: dict[int, tuple[Evidence | None, dict[str, Hole]]] = {}
    in_order = sorted(known, key=lambda evidence: (evidence.start_ms, evidence.key))
    telling: dict[str, list[Evidence]] = {}
    for evidence in in_order:
        for node in evidence.scope.split("+"):
            telling.setdefault(node, []).append(evidence)
    for node in sorted(holes):
        for hole in holes[node]:
            # Evidence without an end reaches into every later hole too; it tells of the first one alone.
            telling_it = [evidence for evidence in telling.get(node, ()) if _tells(evidence, hole)]
            telling[node] = [evidence for evidence in telling.get(node, ()) if evidence not in telling_it]
            if telling_it:
                first = telling_it[0]
                by_known.setdefault(first.key, (first, {}))[1][node] = hole
            else:
                by_start.setdefault(hole.start_ms, (None, {}))[1][node] = hole
    return [*by_known.values(), *by_start.values()]


def _tells(evidence: Evidence, hole: Hole) -> bool:
    before_end = hole.end_ms is None or evidence.start_ms < hole.end_ms
    return before_end and (evidence.end_ms is None or hole.start_ms < evidence.end_ms)


def _evidence(nodes: Sequence[str], start_ms: int, end_ms: int | None, resolver: Resolver) -> Evidence:
    scope = "+".join(nodes)
    slots = normalise(part for node in nodes for part in resolver.node(node) or ())
    return Evidence(
        source=SOURCE,
        key=evidence_key(KEY, VERSION, scope, start_ms),
        start_ms=start_ms,
        end_ms=end_ms,
        scope=scope,
        slots=slots,
        state=State.UNKNOWN,
        cause=CAUSE_CODE,
        detail=DETAIL,
    )
