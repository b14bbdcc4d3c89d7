"""Looks at one window through every detector of the catalogue and says what it saw as evidence.

A window says the same however often it is observed, and two windows say together what one over both would: the
evaluation grid hangs on the epoch, every look reaches back before its window, and what was already told is
followed instead of told again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from warehouse.causes import load_causes
from warehouse.detect import holes as gaps
from warehouse.detect.hits import Hit, Question, Target, job_members, placed_hits
from warehouse.detect.place import Place, Placer
from warehouse.detect.plans import plan_of
from warehouse.detect.runs import Grid, Run
from warehouse.detect.stitch import abandon, detector_of, evidence_key, follow
from warehouse.detect.words import SOURCE, Finding, Observation, Resolver, Settings
from warehouse.evidence.prometheus import PrometheusClient
from warehouse.model.cause import Cause, Detector
from warehouse.model.evidence import Evidence
from warehouse.model.time import Window


def observe(
    window: Window,
    client: PrometheusClient,
    resolver: Resolver,
    still_open: Iterable[Evidence],
    settings: Settings,
) -> Observation:
    """Evaluates every detector of the catalogue over the window.

    Args:
        window: what to look at; its end must lie in the past by a scrape or two, so that all samples are in.
        client: where the series are.
        resolver: the slots of nodes and GPUs.
        still_open: evidence of earlier windows that reaches into this one: without an end, or with one after
            the window's start. Evidence of other sources is left alone.
        settings: how the fleet is scraped.

    Returns:
        All evidence that touches the window. Continued evidence comes back as it was, with its end where the
        window saw it. What lasts to the window's end has no end.

    Raises:
        PrometheusError: when Prometheus gives no whole answer; nothing is concluded from half of one.
    """
    told = [item for item in still_open if item.source == SOURCE and item.start_ms < window.end_ms]
    causes = list(load_causes().values())
    longest_ms = max((found.min_duration_ms for cause in causes for found in cause.detectors), default=0)
    # A hit too short to be told in the last window must be seen whole: its length, and as much again for range
    # functions that become true late.
    reach_ms = 2 * longest_ms + settings.hole_ms
    look = _Look(window, client, resolver, told, settings, reach_ms)
    look.run(causes)
    if look.reach_further and reach_ms < settings.onset_reach_ms:
        # Only what needs it: the long look costs the server as many times more as it is longer.
        further = _Look(window, client, resolver, told, settings, settings.onset_reach_ms, look.reach_further)
        further.run(causes)
        look.seen.update({key: further.seen[key] for key in look.reach_further})
    evidence = [item for seen in look.seen.values() for item in seen.evidence]
    findings = {found for seen in look.seen.values() for found in seen.findings}
    return Observation(sorted(evidence, key=lambda item: (item.start_ms, item.key)), sorted(findings))


@dataclass(slots=True)
class _Look:
    """One look at a window from `reach_ms` before it.

    `only` names the detectors to evaluate, None means all. `seen` collects what each gave, and `reach_further`
    those whose answer may begin before all that was read.
    """

    window: Window
    client: PrometheusClient
    resolver: Resolver
    told: list[Evidence]
    settings: Settings
    reach_ms: int
    only: set[str] | None = None
    seen: dict[str, Observation] = field(default_factory=dict)
    reach_further: set[str] = field(default_factory=set)

    def run(self, causes: Sequence[Cause]) -> None:
        span = Window(self.window.start_ms - self.reach_ms, self.window.end_ms)
        grid = Grid(span.start_ms, span.end_ms, self.settings.scrape_interval_ms)
        placer = Placer(self.client, self.resolver, span)
        watch = self._tell_holes(span, grid)
        for cause in causes:
            for detector in cause.detectors:
                if self.only is not None and detector.key not in self.only:
                    continue
                jobs = {item.job for item in self.told if item.job and detector_of(item) == detector.key}
                ask = Question(span, grid, self.client, watch, self.settings.hole_ms)
                hits, findings = placed_hits(detector, ask, placer, jobs)
                self.seen[detector.key] = Observation([], findings)
                self._tell(cause, detector, hits, placer)
        self._end_what_nothing_follows(causes)

    def _tell_holes(self, span: Window, grid: Grid) -> gaps.Watch:
        """Tells of the holes, and gives all time per node of which no samples speak."""
        scraped = self.client.samples('up{job="gpu-minutes"}', span)
        times = gaps.times_by_node(scraped)
        known = [item for item in self.told if gaps.is_hole(item)]
        starts = gaps.known_starts(known)
        holes = gaps.find_holes(times, starts, span.end_ms, self.settings.hole_ms)
        heads = gaps.unseen_heads(times, starts, grid, self.settings.hole_ms)
        if heads:
            self.reach_further.add(gaps.KEY)
        evidence, findings = gaps.tell_holes(holes, known, self.window, self.resolver)
        self.seen[gaps.KEY] = Observation(evidence, gaps.nameless(scraped) + findings)
        blind = {node: [*heads.get(node, ()), *holes.get(node, ())] for node in times.keys() | holes.keys()}
        return gaps.Watch(blind, {node: seen[-1] for node, seen in times.items() if seen})

    def _tell(self, cause: Cause, detector: Detector, hits: Sequence[Hit], placer: Placer) -> None:
        seen = self.seen[detector.key]
        # At least two scrapes, whatever the interval: one lost scrape is no outage.
        minimum_ms = max(detector.min_duration_ms, 2 * self.settings.scrape_interval_ms)
        mine = [item for item in self.told if detector_of(item) == detector.key]
        by_name: dict[str, list[Evidence]] = {}
        for item in mine:
            by_name.setdefault(_name(detector, item), []).append(item)
        for hit in hits:
            known = by_name.pop(hit.name, [])
            if hit.unplaced:
                # It goes on, but nobody can say where: what is told of this node's GPUs stays as it is.
                for name in [name for name in by_name if name.split("/")[0] == hit.target.node]:
                    seen.evidence.extend(by_name.pop(name))
                continue
            followed = follow(hit.runs, known, self.window, minimum_ms)
            seen.evidence.extend(followed.continued)
            if any(run.cut_off for run in followed.fresh):
                self.reach_further.add(detector.key)
            for run in followed.fresh:
                self._tell_run(cause, detector, hit, run, placer)
            if followed.lost:
                by_name[hit.name] = followed.lost
        self._abandon(detector.key, [item for items in by_name.values() for item in items])

    def _tell_run(self, cause: Cause, detector: Detector, hit: Hit, run: Run, placer: Placer) -> None:
        place: Place | None = hit.place
        if place is None:
            # A job is where it was at the onset: the same GPUs whichever window asks.
            members = job_members(self.client, hit.target.job, run.start_ms)
            place, findings = placer.gpus(members)
            self.seen[detector.key].findings.extend(findings)
        if place is None:
            self.seen[detector.key].findings.append(Finding(SOURCE, hit.name, "none of its GPUs can be placed"))
            return
        item = Evidence(
            source=SOURCE,
            key=evidence_key(detector.key, detector.version, hit.name, run.start_ms),
            start_ms=run.start_ms,
            end_ms=run.end_ms,
            scope=place.scope,
            slots=place.slots,
            state=detector.state,
            cause=cause.code,
            detail=hit.target.detail or detector.why,
            job=hit.target.job or None,
            basis=plan_of(detector.key).basis,
        )
        self.seen[detector.key].evidence.append(item)

    def _end_what_nothing_follows(self, causes: Sequence[Cause]) -> None:
        """Ends evidence of detectors that the catalogue no longer has."""
        alive = {detector.key for cause in causes for detector in cause.detectors}
        for item in self.told:
            key = detector_of(item) or ""
            if key not in alive and not gaps.is_hole(item):
                self.seen.setdefault(key, Observation([], []))
                self._abandon(key, [item])

    def _abandon(self, key: str, lost: Iterable[Evidence]) -> None:
        seen_from_ms = self.window.start_ms - self.reach_ms
        for item in lost:
            ended = abandon(item, seen_from_ms, self.window)
            if ended is not item:
                self.reach_further.add(key)
                note = Finding(SOURCE, item.key, "no series stands for it any more: ended")
                self.seen[key].findings.append(note)
            self.seen[key].evidence.append(ended)


def _name(detector: Detector, told: Evidence) -> str:
    """Gives the name under which a detector's hits are the same episode: the job, or else the place."""
    return Target(job=told.job or "").name(told.scope) if detector.scope == "job" else told.scope
