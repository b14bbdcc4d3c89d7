"""Many nodes of one domain at one time are the domain's fault: a hall without power, not a hundred dead nodes.

Every node keeps its own evidence with its own edges; only the cause, and why, are those of the domain.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from warehouse.detect.words import Resolver
from warehouse.model.cause import FanIn
from warehouse.model.evidence import Evidence
from warehouse.model.state import PPM
from warehouse.model.time import LAST_MS

Onsets = Sequence[tuple[str, int]]


def fan_in(
    items: Iterable[Evidence],
    onsets: Onsets,
    rule: FanIn,
    code: str,
    resolver: Resolver,
    since_ms: int,
    until_ms: int = LAST_MS,
) -> list[Evidence]:
    """Gives the evidence with the domain's cause where enough of a domain's nodes began within the rule's time.

    Args:
        items: evidence of the rule's detector, one node or one GPU each.
        onsets: (node, onset) of every run that was seen, whether told now or not.
        rule: how many, within what time.
        code: the domain's cause.
        resolver: which domains a node belongs to, and how many nodes each has.
        since_ms: what began earlier was judged when all of its neighbours could be seen, and stays as it is.
        until_ms: end of what was seen; so does what was judged already, if neighbours may have begun behind it.
    """
    begun: dict[str, list[tuple[int, str]]] = {}
    for node, onset_ms in onsets:
        for domain in resolver.domains(node):
            begun.setdefault(domain, []).append((onset_ms, node))
    for found in begun.values():
        found.sort()
    return [
        item
        if item.start_ms < since_ms or (item.cause == code and item.start_ms + rule.within_ms > until_ms)
        else _judged(item, begun, rule, code, resolver)
        for item in items
    ]


def _judged(
    item: Evidence, begun: Mapping[str, list[tuple[int, str]]], rule: FanIn, code: str, resolver: Resolver
) -> Evidence:
    best: tuple[int, str, int] | None = None
    # Evidence of a GPU speaks for its node.
    for domain in resolver.domains(item.scope.partition("/")[0]):
        hit, size = _most_around(begun.get(domain, []), item.start_ms, rule.within_ms), resolver.size(domain)
        if hit >= rule.at_least and hit * PPM >= rule.share_ppm * size and (best is None or size > best[0]):
            best = (size, domain, hit)
    if best is None:
        return item
    size, domain, hit = best
    return replace(item, cause=code, detail=f"{hit} of {size} nodes of {domain} within {rule.within_ms // 1000} s")


def _most_around(begun: Sequence[tuple[int, str]], at_ms: int, within_ms: int) -> int:
    """Gives the most nodes that began within one stretch of this length that holds the instant."""
    near = [onset for onset in begun if abs(onset[0] - at_ms) <= within_ms]
    times = [onset_ms for onset_ms, _ in near]
    most = 0
    for start_ms in times:
        if start_ms <= at_ms:
            first, behind = bisect_left(times, start_ms), bisect_right(times, start_ms + within_ms)
            if times[behind - 1] >= at_ms:
                most = max(most, len({node for _, node in near[first:behind]}))
    return most
