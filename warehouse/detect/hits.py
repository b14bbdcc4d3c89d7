"""Asks one detector's question and gives the answer as dated runs per node, GPU, job or endpoint.

First coarsely, where the detector has a rare predicate: one instant over the whole look. Then finely, for those alone
whom that names. Then the raw samples of those who were hit, for the edges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial

from warehouse.detect.holes import Watch
from warehouse.detect.lost import lost_ppm
from warehouse.detect.members import nodes_of_jobs
from warehouse.detect.needs import may_be_true
from warehouse.detect.place import Place, Placer
from warehouse.detect.render import IDENTITY, Form, Only, forms, short_ms
from warehouse.detect.runs import Dating, Hole, Run, chains, confirm, date_run, joined, latched, parted
from warehouse.detect.sight import sight_of
from warehouse.detect.site import OURS
from warehouse.detect.stitch import LostOf, no_loss
from warehouse.detect.targets import Question, Target, missing_label, one_of, target_of
from warehouse.detect.witnesses import witness_points
from warehouse.detect.words import SOURCE, Finding, Settings
from warehouse.evidence.prometheus import Points, Series
from warehouse.model.cause import Detector
from warehouse.signals import load_dialects

# Places in one matcher: a request of some ten kilobytes at most. Where more are hit, everyone is asked.
MOST_ASKED_ALONE = 200

# How many times longer than its recent part a look must be for that to be asked first.
_SHORT = 2

Steps = dict[Target, dict[int, float]]


@dataclass(frozen=True, slots=True)
class Hit:
    """All runs of one target. `place` is None for what roams, placed at its onset, and for what has no place."""

    target: Target
    name: str
    place: Place | None
    runs: list[Run]
    lost_of: LostOf = no_loss

    @property
    def unplaced(self) -> bool:
        """Tells whether the target has no place in the fleet."""
        return self.place is None and not self.target.roaming


@dataclass(frozen=True, slots=True)
class Answer:
    """What a detector gave: hits, what could not be used, and of a latched one when each node was cleared."""

    hits: list[Hit]
    findings: list[Finding]
    clears: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)


def ask(
    detector: Detector,
    question: Question,
    placer: Placer,
    settings: Settings,
    told: Set[Target],
    together: bool = False,
) -> Answer:
    """Evaluates a detector over a span and gives its hits, each with its place and its dated runs.

    Args:
        detector: what to look for.
        question: where, and over what.
        placer: the slots of what is hit.
        settings: how the fleet is scraped.
        told: of whom something is told already: it may go on without being confirmed again.
        together: whether all hits must be seen wherever one is, since a domain is judged by how many there are.

    Raises:
        PrometheusError: when Prometheus gives no whole answer.
    """
    hits: list[Hit] = []
    findings: list[Finding] = []
    clears: dict[str, list[tuple[int, int]]] = {}
    scrape_ms = settings.scrape_interval_ms
    for form in forms(detector, question.site, scrape_ms, question.span.length_ms):
        seen = _there(form, question)
        if not seen and not (detector.clears and told):
            continue
        only = _coarse(detector, form, question, told)
        if only is not None and not form.coarse:
            only = _recent(detector, form, question, told, together)
        if only is None and not (detector.clears and told):
            continue
        if only is not None and only.matcher:
            again = forms(detector, question.site, scrape_ms, question.span.length_ms, only)
            form = next(other for other in again if other.teller == form.teller)
        exact, late, lacking = _truths(detector, form, question, told) if only is not None else ({}, {}, [])
        findings += lacking
        exact = {
            target: at
            for target, at in exact.items()
            if _speaks(form, target, question.watch) and (only is None or only.covers(target.job))
        }
        if detector.clears and (exact or told):
            clears.update(_clears(form, question, {target.node for target in (*exact, *told)}))
        placed, unplaced = _placed(detector, form, question, placer, settings, exact, late, clears)
        hits += placed
        findings += unplaced
    return Answer(hits, findings, clears)


def _there(form: Form, question: Question) -> bool:
    """Tells whether a form may be true at all: its exporter is there, and so are the series that it must read."""
    names, exporters = question.names, question.watch.exporters
    if form.teller not in (OURS, "", *exporters):
        dialect = next(dialect for dialect in load_dialects() if dialect.name == form.teller)
        if not any(name.startswith(dialect.prefix) for name in names):
            return False
    return may_be_true(form.expr, names)


def _recent(detector: Detector, form: Form, question: Question, told: Set[Target], together: bool) -> Only | None:
    """Gives whom the condition holds of lately, in a look that reaches back far; None where of nobody.

    Only they can be told anew. A look of a minute so asks for a minute, and for all of its reach nobody but those.
    Where there is a coarse predicate, that costs less still.
    """
    if _SHORT * question.recent.length_ms > question.span.length_ms:
        return Only()
    expr = form.onset_expr or form.expr
    found = question.client.query_range(expr, question.recent, question.grid.step_ms, detector.max_steps)
    if not found and not told:
        return None
    if together or detector.scope == "endpoint":
        return Only()
    return _alone(detector, form, question, told, found)


def _alone(detector: Detector, form: Form, question: Question, told: Set[Target], found: Sequence[Series]) -> Only:
    """Gives the nodes of those who were found or told, or everyone where they are too many or have no name."""
    if detector.scope == "job":
        return _jobs_alone(form, question, {series.labels.get("job_id", "") for series in found}, told)
    nodes = {series.labels.get("node", "") for series in found} | {target.node for target in told}
    return Only(one_of("node", nodes)) if len(nodes) <= MOST_ASKED_ALONE and "" not in nodes else Only()


def _coarse(detector: Detector, form: Form, question: Question, told: Set[Target]) -> Only | None:
    """Gives whom to ask finely; None where nobody can be hit."""
    if not form.coarse:
        return Only()
    found = question.client.query(form.coarse, question.span.end_ms - 1)
    if not found and not told:
        return None
    return Only() if detector.scope == "endpoint" else _alone(detector, form, question, told, found)


def _jobs_alone(form: Form, question: Question, found: Set[str], told: Set[Target]) -> Only:
    """Gives the nodes of the jobs that were found or told: all of them, not only those where the predicate holds."""
    if form.teller != OURS or "" in found:
        return Only()
    jobs = frozenset(found | {target.job for target in told})
    nodes = nodes_of_jobs(jobs, question)
    if not nodes or "" in nodes or len(nodes) > MOST_ASKED_ALONE:
        return Only()
    return Only(one_of("node", nodes), jobs)


def _truths(
    detector: Detector, form: Form, question: Question, told: Set[Target]
) -> tuple[Steps, Steps, list[Finding]]:
    """Gives the steps of the condition itself, those of the one that confirms it, and hits without their labels."""
    late, findings = _true_steps(form.expr, detector, question)
    if not form.onset_expr:
        return late, late, findings
    if not late and not told:
        return {}, {}, findings
    instant, _ = _true_steps(form.onset_expr, detector, question)
    kept = {target: at for target, at in instant.items() if target in late or _as_told(target) in told}
    return kept, late, findings


def _as_told(target: Target) -> Target:
    """Gives a target as evidence names it: of a GPU, the node."""
    return replace(target, address="", uuid="")


def _true_steps(expr: str, detector: Detector, question: Question) -> tuple[Steps, list[Finding]]:
    steps: Steps = {}
    findings = []
    for series in question.client.query_range(expr, question.span, question.grid.step_ms, detector.max_steps):
        lacks = missing_label(detector.scope, series.labels, IDENTITY)
        if lacks is not None:
            where = ",".join(f"{key}={value}" for key, value in sorted(series.labels.items()))
            findings.append(Finding(SOURCE, where, f"a hit of {detector.key} has no label {lacks}"))
            continue
        steps.setdefault(target_of(detector.scope, series.labels), {}).update(series.points)
    return steps, findings


def _speaks(form: Form, target: Target, watch: Watch) -> bool:
    """Tells whether this exporter's series are read for the target: ours are, wherever ours is scraped."""
    return form.teller in (OURS, "") or not target.node or target.node not in watch.ours


def _clears(form: Form, question: Question, nodes: Set[str]) -> dict[str, list[tuple[int, int]]]:
    """Gives per node when a clear was seen, and when it was, in milliseconds and in order."""
    found: dict[str, set[tuple[int, int]]] = {}
    for expr in form.clears:
        for series in question.client.query_range(expr, question.span, question.grid.step_ms):
            node = series.labels.get("node", "")
            if node in nodes:
                seen = {(at_ms, round(value * 1000)) for at_ms, value in series.points if value == value}
                found.setdefault(node, set()).update(seen)
    return {node: sorted(seen) for node, seen in found.items()}


def _placed(
    detector: Detector,
    form: Form,
    question: Question,
    placer: Placer,
    settings: Settings,
    exact: Steps,
    late: Steps,
    clears: Mapping[str, Sequence[tuple[int, int]]],
) -> tuple[list[Hit], list[Finding]]:
    points = witness_points(form.witnesses, exact, question) if exact else []
    if detector.scope == "gpu":
        placer.learn((target.node for target in exact), form.teller)
    hits: list[Hit] = []
    findings: list[Finding] = []
    for target in sorted(exact):
        place = _place(target, placer, form.teller)
        if isinstance(place, Finding):
            findings.append(place)
            hits.append(Hit(target, target.roaming or f"{target.node}/?", None, []))
            continue
        mine = [of.get((target.node, target.address)[: len(by)], ()) for by, of in points]
        runs = _runs(detector, question, settings, target, exact[target], late.get(target, {}), mine)
        if detector.clears:
            runs = latched(runs, clears.get(target.node, ()), question.grid.horizon_ms)
        if detector.momentary:
            # One that was under way when the look began was told by an earlier look.
            runs = [replace(run, end_ms=run.start_ms, earliest_end_ms=None) for run in runs if not run.cut_off]
        # Asked only where it may have changed, see `follow`.
        lost_of = partial(lost_ppm, detector, form, question, target)
        hits.append(Hit(target, target.roaming or (place.scope if place else ""), place, runs, lost_of))
    return hits, findings


def _runs(
    detector: Detector,
    question: Question,
    settings: Settings,
    target: Target,
    exact: Mapping[int, float],
    late: Mapping[int, float],
    witnesses: Sequence[Points],
) -> list[Run]:
    grid = question.grid
    holes, blind, last_seen_ms = sight_of(target, question)
    seen_through: Sequence[Hole] = () if target.roaming else holes
    found = confirm(chains(exact.keys() - blind, grid.step_ms, seen_through), late.keys() - blind)
    found = joined(found, detector.stitch_ms, holes)
    if detector.dated_by_value:
        found = [part for chain in found for part in parted(chain, exact, grid.step_ms)]
    how = _dating(detector, settings)
    runs = [date_run(chain, grid, last_seen_ms, witnesses, holes, how) for chain in found]
    if detector.dated_by_value:
        runs = [_dated_by_value(run, chain.first_ms, exact) for run, chain in zip(runs, found, strict=True)]
    return runs


def _dated_by_value(run: Run, first_ms: int, values: Mapping[int, float]) -> Run:
    """Moves the onset to the Unix time that the series itself says, where that lies before it."""
    said_ms = round(values[first_ms] * 1000)
    if said_ms > run.start_ms:
        return run
    return replace(run, start_ms=said_ms, earliest_start_ms=said_ms, cut_off=False)


def _dating(detector: Detector, settings: Settings) -> Dating:
    short = short_ms(settings.scrape_interval_ms) if detector.window_ms else 0
    # Where the onset has an expression of its own, no range function stands in it.
    window_of = "none" if detector.onset_expr else detector.window_of
    start_late_ms = {"min": short, "mean": short // 2}.get(window_of, 0)
    end_late_ms = {"max": short, "mean": short // 2}.get(window_of, 0)
    blur_ms = short if window_of != "none" else settings.scrape_interval_ms
    return Dating(start_late_ms, end_late_ms, blur_ms, detector.stitch_ms, settings.hole_ms)


def _place(target: Target, placer: Placer, teller: str) -> Place | Finding | None:
    if target.roaming:
        return None
    if target.address:
        return placer.gpu(target.node, target.address, target.uuid, teller)
    return placer.node(target.node)
