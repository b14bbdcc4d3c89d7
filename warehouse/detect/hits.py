"""Asks one detector's question and gives the answer as dated runs per node, GPU or job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from warehouse.detect.holes import Holes
from warehouse.detect.place import Place, Placer, one_of
from warehouse.detect.plans import Plan, Witness, plan_of
from warehouse.detect.runs import Grid, Run, back_date, chains, date_run
from warehouse.detect.words import SOURCE, Finding, Settings
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


def placed_hits(
    detector: Detector,
    span: Window,
    grid: Grid,
    client: PrometheusClient,
    placer: Placer,
    holes: Holes,
    settings: Settings,
) -> tuple[list[Hit], list[Finding]]:
    """Evaluates a detector over a span and gives its hits, each with its place and its dated runs.

    Raises:
        PrometheusError: when Prometheus gives no whole answer.
    """
    plan = plan_of(detector.key)
    steps, findings = _true_steps(detector.expr, detector, span, grid, client, plan)
    if not steps:
        return [], findings
    exact: dict[Target, set[int]] = {}
    if plan.onset_expr is not None:
        exact, _ = _true_steps(plan.onset_expr, detector, span, grid, client, plan)
    witnesses = _witness_points(plan.witnesses, steps, span, client)
    if detector.scope == "gpu":
        placer.learn(target.node for target in steps)
    hits = []
    for target in sorted(steps):
        place = _place(target, placer)
        if isinstance(place, Finding):
            findings.append(place)
            hits.append(Hit(target, target.name(f"{target.node}/?"), None, []))
            continue
        own = holes.get(target.node, ())
        blind = _blind_steps(target, span, grid, client, holes) if target.job else frozenset[int]()
        late = chains(steps[target] - blind, grid.step_ms, own)
        if plan.onset_expr is not None:
            late = back_date(late, chains(exact.get(target, set()) - blind, grid.step_ms, own))
        points = [witnesses[index].get(_about(witness, target), ()) for index, witness in enumerate(plan.witnesses)]
        runs = [date_run(chain, grid, points, own, settings.hole_ms) for chain in late]
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
    expr: str, detector: Detector, span: Window, grid: Grid, client: PrometheusClient, plan: Plan
) -> tuple[dict[Target, set[int]], list[Finding]]:
    steps: dict[Target, set[int]] = {}
    findings = []
    for series in client.query_range(expr, span, grid.step_ms, plan.max_steps):
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


def _blind_steps(target: Target, span: Window, grid: Grid, client: PrometheusClient, holes: Holes) -> frozenset[int]:
    """Gives the steps at which every node of the job was in a hole: the server was down, not one target.

    Which nodes these are is asked step by step, so that the answer does not depend on where the span begins.
    """
    if not holes:
        return frozenset()
    expr = f"count by (node) (gpuminutes_gpu_workload_info{{{one_of('job_id', [target.job])}}})"
    blind: set[int] = set()
    seeing: set[int] = set()
    for series in client.query_range(expr, span, grid.step_ms):
        own = holes.get(series.labels.get("node", ""), ())
        for at_ms, _ in series.points:
            (blind if any(hole.hides(at_ms) for hole in own) else seeing).add(at_ms)
    return frozenset(blind - seeing)


def _about(witness: Witness, target: Target) -> tuple[str, ...]:
    return (target.node, target.address)[: len(witness.by)]


def _witness_points(
    witnesses: Sequence[Witness], targets: Iterable[Target], span: Window, client: PrometheusClient
) -> list[dict[tuple[str, ...], Points]]:
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
            for series in client.samples(f"{witness.metric}{{{','.join(matchers)}}}", span):
                about = tuple(series.labels.get(label, "") for label in witness.by)
                points[about] = tuple(sorted(points.get(about, ()) + series.points))
        found.append(points)
    return found
