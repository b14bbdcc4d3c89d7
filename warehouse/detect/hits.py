"""Asks one detector's question and gives the answer as dated runs per node, GPU or job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field

from warehouse.detect.holes import Watch
from warehouse.detect.place import Place, Placer, one_of
from warehouse.detect.plans import Plan, Witness, plan_of
from warehouse.detect.runs import Grid, Hole, Run, chains, confirm, date_run
from warehouse.detect.words import SOURCE, Finding
from warehouse.evidence.prometheus import Labels, Points, PrometheusClient
from warehouse.model.cause import Detector
from warehouse.model.time import Window

# Labels that say what a hit is about, by the detector's scope.
_IDENTITY = {"node": ("node",), "gpu": ("node", "slot"), "job": ("job_id",)}

# Places in one matcher, as for nodes: a request of some ten kilobytes at most.
_TARGETS_PER_QUERY = 200


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """What a hit is about, as the series name it."""

    node: str = ""
    address: str = ""
    job: str = ""
    detail: str = field(default="", compare=False)

    def name(self, scope: str) -> str:
        """Gives the name of its episodes: the job for a job, since its GPUs may be placed anywhere."""
        return f"job:{self.job}" if self.job else scope


@dataclass(frozen=True, slots=True)
class Hit:
    """All runs of one target. `place` is None for a job, placed at its onset, and for a target without a place."""

    target: Target
    name: str
    place: Place | None
    runs: list[Run]

    @property
    def unplaced(self) -> bool:
        """Tells whether the target has no place in the fleet."""
        return self.place is None and not self.target.job


@dataclass(frozen=True, slots=True)
class Question:
    """What every detector of one look is asked over, and whom; `fresh_ms` is how long a sample speaks."""

    span: Window
    grid: Grid
    client: PrometheusClient
    watch: Watch
    fresh_ms: int


def placed_hits(
    detector: Detector, ask: Question, placer: Placer, told_jobs: Set[str]
) -> tuple[list[Hit], list[Finding]]:
    """Evaluates a detector over a span and gives its hits, each with its place and its dated runs.

    Args:
        detector: what to look for.
        ask: where, and over what.
        placer: the slots of what is hit.
        told_jobs: jobs of which something is told: it may go on without being confirmed again.

    Raises:
        PrometheusError: when Prometheus gives no whole answer.
    """
    plan = plan_of(detector.key)
    steps, findings = _true_steps(detector.expr, detector, ask, plan)
    exact = steps
    if plan.onset_expr is not None and (steps or told_jobs):
        instant, _ = _true_steps(plan.onset_expr, detector, ask, plan)
        exact = {target: true for target, true in instant.items() if target in steps or target.job in told_jobs}
    witnesses = _witness_points(plan.witnesses, steps, ask)
    if detector.scope == "gpu":
        placer.learn(target.node for target in exact)
    hits = []
    for target in sorted(exact):
        place = _place(target, placer)
        if isinstance(place, Finding):
            findings.append(place)
            hits.append(Hit(target, target.name(f"{target.node}/?"), None, []))
            continue
        holes, blind, last_seen_ms = _sight(target, ask)
        found = chains(exact[target] - blind, ask.grid.step_ms, () if target.job else holes)
        found = confirm(found, steps.get(target, set()) - blind)
        points = [witness.get((target.node, target.address)[: len(by)], ()) for by, witness in witnesses]
        runs = [date_run(chain, ask.grid, last_seen_ms, points, holes, ask.fresh_ms) for chain in found]
        hits.append(Hit(target, target.name(place.scope if place else ""), place, runs))
    return hits, findings


def job_members(client: PrometheusClient, job: str, at_ms: int) -> dict[str, list[str]]:
    """Gives the PCI addresses of a job's GPUs per node at an instant."""
    expr = f"count by (node, slot) (gpuminutes_gpu_workload_info{{{one_of('job_id', [job])}}})"
    members: dict[str, list[str]] = {}
    for series in client.query(expr, at_ms):
        members.setdefault(series.labels.get("node", ""), []).append(series.labels.get("slot", ""))
    return members


def _true_steps(
    expr: str, detector: Detector, ask: Question, plan: Plan
) -> tuple[dict[Target, set[int]], list[Finding]]:
    steps: dict[Target, set[int]] = {}
    findings = []
    for series in ask.client.query_range(expr, ask.span, ask.grid.step_ms, plan.max_steps):
        missing = [label for label in _IDENTITY[detector.scope] if not series.labels.get(label)]
        if missing:
            where = ",".join(f"{key}={value}" for key, value in sorted(series.labels.items()))
            findings.append(Finding(SOURCE, where, f"a hit of {detector.key} has no label {missing[0]}"))
            continue
        target = _target(detector.scope, series.labels)
        steps.setdefault(target, set()).update(at_ms for at_ms, _ in series.points)
    return steps, findings


def _target(scope: str, labels: Labels) -> Target:
    if scope == "job":
        return Target(job=labels["job_id"])
    if scope == "gpu":
        detail = f"{labels.get('uuid', 'a GPU without uuid')} at {labels['slot']}"
        return Target(node=labels["node"], address=labels["slot"], detail=detail)
    return Target(node=labels["node"])


def _place(target: Target, placer: Placer) -> Place | Finding | None:
    if target.job:
        return None
    return placer.gpu(target.node, target.address) if target.address else placer.node(target.node)


def _sight(target: Target, ask: Question) -> tuple[Sequence[Hole], set[int], int]:
    """Gives the holes of a target, the steps hidden besides, and the time of the last sample about it.

    A job is unwatched where every node of it is: then the server was down and not one target. Which nodes these
    are is asked step by step, so that the answer does not depend on where the span begins.
    """
    watch = ask.watch
    if not target.job:
        return watch.holes.get(target.node, ()), set(), watch.last_seen.get(target.node, ask.span.start_ms)
    expr = f"count by (node) (gpuminutes_gpu_workload_info{{{one_of('job_id', [target.job])}}})"
    hiding: dict[int, list[Hole | None]] = {}
    last_seen_ms = ask.span.start_ms
    for series in ask.client.query_range(expr, ask.span, ask.grid.step_ms):
        node = series.labels.get("node", "")
        last_seen_ms = max(last_seen_ms, watch.last_seen.get(node, 0))
        for at_ms, _ in series.points:
            hole = next((hole for hole in watch.holes.get(node, ()) if hole.hides(at_ms)), None)
            hiding.setdefault(at_ms, []).append(hole)
    shared: set[Hole] = set()
    blind: set[int] = set()
    for at_ms, over in hiding.items():
        found = [hole for hole in over if hole is not None]
        if len(found) == len(over):
            blind.add(at_ms)
            ends = [hole.end_ms for hole in found if hole.end_ms is not None]
            shared.add(Hole(max(hole.start_ms for hole in found), min(ends) if ends else None))
    return sorted(shared, key=lambda hole: hole.start_ms), blind, last_seen_ms


def _witness_points(
    witnesses: Sequence[Witness], targets: Iterable[Target], ask: Question
) -> list[tuple[tuple[str, ...], dict[tuple[str, ...], Points]]]:
    """Reads the raw samples of each witness for the targets that were hit, and for no other."""
    wanted = sorted(targets)
    found = []
    for witness in witnesses:
        points: dict[tuple[str, ...], Points] = {}
        for first in range(0, len(wanted), _TARGETS_PER_QUERY):
            chosen = wanted[first : first + _TARGETS_PER_QUERY]
            matchers = [witness.matchers] if witness.matchers else []
            matchers.append(one_of("node", (target.node for target in chosen)))
            if "slot" in witness.by:
                matchers.append(one_of("slot", (target.address for target in chosen)))
            for series in ask.client.samples(f"{witness.metric}{{{','.join(matchers)}}}", ask.span):
                about = tuple(series.labels.get(label, "") for label in witness.by)
                points[about] = tuple(sorted(points.get(about, ()) + series.points))
        found.append((witness.by, points))
    return found
