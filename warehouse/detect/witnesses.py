"""The raw samples of those who were hit: they date the edges."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence

from warehouse.detect.render import host_of, series_of
from warehouse.detect.targets import Question, Target, address, one_of
from warehouse.evidence.prometheus import Points
from warehouse.model.cause import Witness
from warehouse.model.time import Window

# Places in one matcher: a request of some ten kilobytes at most.
_TARGETS_PER_QUERY = 200

_COMPARE = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip

Found = list[tuple[tuple[str, ...], Mapping[tuple[str, ...], Points]]]


def witness_points(witnesses: Sequence[Witness], targets: Iterable[Target], question: Question) -> Found:
    """Gives per witness its labels and, by their values, its samples: 0 where one shows the condition, else 1."""
    return [(witness.by, _points(witness, sorted(targets), question)) for witness in witnesses]


def _points(witness: Witness, wanted: Sequence[Target], question: Question) -> dict[tuple[str, ...], Points]:
    (name, asked), sources = series_of(witness.metric, witness.matchers, question.site)
    shows, limit = _COMPARE[witness.op], float(witness.value)
    # From a few scrapes before, so that the last good sample before an onset is known wherever the span begins.
    span = Window(question.span.start_ms - 4 * question.grid.step_ms, question.span.end_ms)
    found: dict[tuple[str, ...], Points] = {}
    for first in range(0, len(wanted), _TARGETS_PER_QUERY):
        chosen = wanted[first : first + _TARGETS_PER_QUERY]
        matchers = [asked] if asked else []
        if sources == ("node",):
            matchers.append(one_of("node", (target.node for target in chosen)))
            if "slot" in witness.by:
                matchers.append(one_of("slot", (target.address for target in chosen)))
        for series in question.client.samples(f"{name}{{{','.join(matchers)}}}", span):
            labels = {**series.labels, "node": host_of(series.labels, sources)}
            about = tuple(address(labels.get(by, "")) if by == "slot" else labels.get(by, "") for by in witness.by)
            points = ((at_ms, 0.0 if shows(value, limit) else 1.0) for at_ms, value in series.points)
            found[about] = tuple(sorted({*found.get(about, ()), *points}))
        if sources != ("node",):
            break
    return found
