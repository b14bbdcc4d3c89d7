"""What was not seen of a target: holes in the samples of its node, and of all nodes of a job at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warehouse.detect.members import members_expr
from warehouse.detect.runs import Hole
from warehouse.detect.targets import Question, Target


def sight_of(target: Target, question: Question) -> tuple[Sequence[Hole], set[int], int]:
    """Gives the holes of a target, the steps hidden besides, and the time of the last sample about it.

    What roams is unwatched where every node of it is: then the server was down and not one target. Which nodes these
    are is asked step by step, so that the answer does not depend on where the span begins.
    """
    watch, start_ms = question.watch, question.span.start_ms
    if not target.roaming:
        return watch.holes.get(target.node, ()), set(), watch.last_seen.get(target.node, start_ms)
    hiding: dict[int, list[Hole | None]] = {}
    last_seen_ms = start_ms
    for expr in members_expr(target, question.site, question.names):
        for series in question.client.query_range(expr, question.span, question.grid.step_ms):
            node = series.labels.get("node", "")
            last_seen_ms = max(last_seen_ms, watch.last_seen.get(node, 0))
            for at_ms, _ in series.points:
                hole = next((hole for hole in watch.holes.get(node, ()) if hole.hides(at_ms)), None)
                hiding.setdefault(at_ms, []).append(hole)
    if not hiding:
        last_seen_ms = max(watch.last_seen.values(), default=start_ms)
    return *_hidden(hiding), last_seen_ms


def _hidden(hiding: Mapping[int, Sequence[Hole | None]]) -> tuple[list[Hole], set[int]]:
    shared: set[Hole] = set()
    blind: set[int] = set()
    for at_ms, over in hiding.items():
        found = [hole for hole in over if hole is not None]
        if len(found) == len(over):
            blind.add(at_ms)
            ends = [hole.end_ms for hole in found if hole.end_ms is not None]
            shared.add(Hole(max(hole.start_ms for hole in found), min(ends) if ends else None))
    return sorted(shared, key=lambda hole: hole.start_ms), blind
