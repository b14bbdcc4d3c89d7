"""Looks at one window through every detector of the catalogue and says what it saw as evidence.

A window says the same however often it is observed, and two windows say together what one over both would: the
evaluation grid hangs on the epoch, every look reaches back before its window, and what was already told is
followed instead of told again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from warehouse.causes import load_causes
from warehouse.detect import holes as gaps
from warehouse.detect.doctor import lacks
from warehouse.detect.fan_in import fan_in
from warehouse.detect.hits import Answer, Hit, ask
from warehouse.detect.members import members
from warehouse.detect.place import Place, Placer
from warehouse.detect.render import forms, host_of, series_of, short_ms
from warehouse.detect.runs import Grid, Run
from warehouse.detect.site import OURS, Site
from warehouse.detect.stitch import Following, abandon, detector_of, evidence_key, follow, name_in_key, unlatch
from warehouse.detect.targets import Question, Target
from warehouse.detect.words import SOURCE, Finding, Observation, Resolver, Settings
from warehouse.evidence.prometheus import PrometheusClient, Series
from warehouse.model.cause import Cause, Detector, FanIn
from warehouse.model.evidence import Evidence
from warehouse.model.state import State
from warehouse.model.time import MS_PER_MINUTE, Window


def observe(
    window: Window,
    client: PrometheusClient,
    resolver: Resolver,
    still_open: Iterable[Evidence],
    settings: Settings,
    only: Set[str] | None = None,
) -> Observation:
    """Evaluates every detector of the catalogue over the window.

    Args:
        window: what to look at; its end must lie in the past by a scrape or two, so that all samples are in.
        client: where the series are.
        resolver: the slots of nodes and GPUs.
        still_open: evidence of earlier windows that reaches into this one: without an end, or with one after
            the window's start. Evidence of other sources is left alone.
        settings: how the fleet is scraped, and what its series are called.
        only: keys of the detectors to evaluate; None means all.

    Returns:
        All evidence that touches the window. Continued evidence comes back as it was, with its end where the
        window saw it. What lasts to the window's end has no end.

    Raises:
        PrometheusError: when Prometheus gives no whole answer; nothing is concluded from half of one.
    """
    told = [item for item in still_open if item.source == SOURCE and item.start_ms < window.end_ms]
    judged = [(cause, detector) for cause, detector in catalogue(settings.site) if only is None or detector.key in only]
    reaches = {detector.key: reach_ms(detector, judged, settings) for _, detector in judged}
    longest = Window(window.start_ms - max([settings.hole_ms, *reaches.values()]), window.end_ms)
    names = client.names(Window(longest.start_ms - settings.hole_ms, longest.end_ms))
    look = _Look(window, client, resolver, told, settings, names, longest, judged)
    look.run(judged, reaches, whole=only is None)
    if look.reach_further:
        # Only what needs it: the long look costs the server as many times more as it is longer.
        span = Window(window.start_ms - max(settings.onset_reach_ms, longest.length_ms), window.end_ms)
        again = [(cause, detector) for cause, detector in judged if detector.key in look.reach_further]
        further = _Look(window, client, resolver, told, settings, names, span, judged)
        further.run(again, {detector.key: span.length_ms for _, detector in again}, whole=False)
        look.seen.update({key: further.seen[key] for key in look.reach_further if key in further.seen})
    evidence = [item for seen in look.seen.values() for item in seen.evidence]
    findings = {found for seen in look.seen.values() for found in seen.findings}
    blind = frozenset(detector.key for _, detector in judged if not sees(detector, settings, names))
    return Observation(sorted(evidence, key=lambda item: (item.start_ms, item.key)), sorted(findings), blind)


def reach_ms(detector: Detector, judged: Sequence[Judged], settings: Settings) -> int:
    """Gives how far before its window a detector looks, in milliseconds.

    A hit too short to be told in the last window must be seen whole: its length, and as much again for range functions
    that become true late, and what is stitched. What fans in must be seen with all that began around it.
    """
    within_ms = max([d.fan_in.within_ms for _, d in judged if d.fan_in and d.fan_in.of == detector.key], default=0)
    length_ms = max(settings.site.min_duration_ms(detector), detector.window_ms, 2 * settings.scrape_interval_ms)
    return 2 * length_ms + detector.stitch_ms + settings.hole_ms + 3 * within_ms


def sees(detector: Detector, settings: Settings, names: Set[str]) -> bool:
    """Tells whether some form of a detector finds all that it must read among the series' names."""
    if detector.fan_in is not None:
        return True
    span_ms = settings.onset_reach_ms
    return any(
        not [name for name in lacks(form.expr, names) if not name.startswith("up")]
        for form in forms(detector, settings.site, settings.scrape_interval_ms, span_ms)
    )


Judged = tuple[Cause, Detector]


_SOON_MS = 5 * MS_PER_MINUTE


def urgent(site: Site) -> frozenset[str]:
    """Gives the keys of the detectors that should wake somebody soon.

    What only slows, and what is known after five minutes anyhow, can wait for the next look of all; what speaks by the
    evidence of another is as urgent as that.
    """
    pages = {
        d.key: d
        for _, d in catalogue(site)
        if d.severity == "page" and d.state is not State.DEGRADED and site.min_duration_ms(d) + d.window_ms < _SOON_MS
    }
    return frozenset(key for key, d in pages.items() if d.fan_in is None or d.fan_in.of in pages)


def catalogue(site: Site) -> list[Judged]:
    """Gives the detectors that a site runs, each with its cause: the catalogue's, then its own."""
    causes = load_causes()
    own = [(causes[code], detector) for code, detector in site.custom]
    known = [(cause, detector) for cause in causes.values() for detector in cause.detectors]
    return [(cause, detector) for cause, detector in (*known, *own) if site.enabled(detector)]


@dataclass(slots=True)
class _Look:
    """One look at a window, from the start of the longest span.

    `seen` collects what each detector gave, and `reach_further` those whose answer may begin before all that was read.
    """

    window: Window
    client: PrometheusClient
    resolver: Resolver
    told: list[Evidence]
    settings: Settings
    names: frozenset[str]
    longest: Window
    judged: Sequence[Judged]
    seen: dict[str, Observation] = field(default_factory=dict)
    reach_further: set[str] = field(default_factory=set)
    onsets: dict[str, list[tuple[str, int]]] = field(default_factory=dict)

    def run(self, judged: Sequence[Judged], reaches: Mapping[str, int], *, whole: bool) -> None:
        watch = self._tell_holes()
        placer = Placer(self.client, self.resolver, self.longest, self.settings.site)
        for cause, detector in judged:
            if detector.fan_in is None:
                self._ask(cause, detector, placer, watch, reaches[detector.key])
        for cause, detector in judged:
            if detector.fan_in is not None and detector.fan_in.of in self.seen:
                self._fan_in(cause, detector.fan_in, reaches[detector.fan_in.of])
        if whole:
            self._end_what_nothing_follows(judged)

    def _ask(self, cause: Cause, detector: Detector, placer: Placer, watch: gaps.Watch, reach: int) -> None:
        span = Window(self.window.start_ms - reach, self.window.end_ms)
        grid = Grid(span.start_ms, span.end_ms, self.settings.scrape_interval_ms)
        mine = [item for item in self.told if detector_of(item) == detector.key]
        recent = Window(max(span.start_ms, self.window.start_ms - self._lingers_ms(detector)), span.end_ms)
        question = Question(span, grid, self.client, watch, self.settings.site, self.names, recent)
        together = any(other.fan_in and other.fan_in.of == detector.key for _, other in self.judged)
        answer = ask(detector, question, placer, self.settings, {_target(detector, item) for item in mine}, together)
        self.seen[detector.key] = Observation([], answer.findings)
        self.onsets[detector.key] = [
            # By the fleet's name of the node: exporters may write the domain behind it.
            (hit.name.partition("/")[0], run.start_ms)
            for hit in answer.hits
            for run in hit.runs
            if self._counts(detector, run)
        ]
        self._tell(_Telling(cause, detector, question, placer, answer), mine)

    def _lingers_ms(self, detector: Detector) -> int:
        """Gives how long before the window the condition may have held last of what is told in it anew.

        A run ends at most a step after its last true step, or goes on for as long as another would be stitched to it;
        a latched one is told when it is long enough, whether or not the condition still holds.
        """
        waits_ms = self._minimum_ms(detector) if detector.clears else 0
        return detector.stitch_ms + waits_ms + 2 * self.settings.scrape_interval_ms

    def _counts(self, detector: Detector, run: Run) -> bool:
        return run.confirmed and run.seen_ms - run.start_ms >= self._minimum_ms(detector)

    def _minimum_ms(self, detector: Detector) -> int:
        # At least two scrapes, whatever the interval: one lost scrape is no outage. An event has no length at all.
        shortest_ms = 0 if detector.momentary else 2 * self.settings.scrape_interval_ms
        return max(0 if detector.momentary else self.settings.site.min_duration_ms(detector), shortest_ms)

    def _fan_in(self, cause: Cause, rule: FanIn, reach: int) -> None:
        seen = self.seen[rule.of]
        since_ms = self.window.start_ms - reach + 2 * rule.within_ms
        found = fan_in(
            seen.evidence, self.onsets[rule.of], rule, cause.code, self.resolver, since_ms, self.window.end_ms
        )
        self.seen[rule.of] = replace(seen, evidence=found)

    def _tell_holes(self) -> gaps.Watch:
        """Tells of the holes, and gives all time per node of which no samples speak."""
        grid = Grid(self.longest.start_ms, self.longest.end_ms, self.settings.scrape_interval_ms)
        scraped, ours, exporters = self._scraped()
        times = gaps.times_by_node(scraped)
        known = [item for item in self.told if gaps.is_hole(item)]
        starts = gaps.known_starts(known)
        holes = gaps.find_holes(times, starts, self.longest.end_ms, self.settings.hole_ms)
        heads = gaps.unseen_heads(times, starts, grid, self.settings.hole_ms)
        if heads:
            self.reach_further.add(gaps.KEY)
        evidence, findings = gaps.tell_holes(holes, known, self.window, self.resolver)
        self.seen[gaps.KEY] = Observation(evidence, gaps.nameless(scraped) + findings)
        blind = {node: [*heads.get(node, ()), *holes.get(node, ())] for node in times.keys() | holes.keys()}
        return gaps.Watch(blind, {node: seen[-1] for node, seen in times.items() if seen}, ours, exporters)

    def _scraped(self) -> tuple[list[tuple[str, Series]], frozenset[str], frozenset[str]]:
        """Gives the scrapes of GPU exporters with their nodes: of ours, and of others where ours is not.

        Besides, the nodes that ours watches, and the exporters of which there is any target.
        """
        found: list[tuple[str, Series]] = []
        ours: frozenset[str] = frozenset()
        exporters: set[str] = set()
        for exporter in self.settings.site.exporters:
            job = "gpu-minutes" if exporter == OURS else exporter
            (name, asked), sources = series_of("up", f'job="{job}"', self.settings.site)
            scraped = self.client.samples(f"{name}{{{asked}}}", self.longest)
            exporters |= {exporter} if scraped else set()
            named = [(host_of(series.labels, sources), series) for series in scraped]
            found += [(node, series) for node, series in named if node not in ours or not node]
            if exporter == OURS:
                ours = frozenset(node for node, _ in named if node)
        return found, ours, frozenset(exporters)

    def _tell(self, telling: _Telling, mine: Sequence[Evidence]) -> None:
        detector, seen = telling.detector, self.seen[telling.detector.key]
        by_name: dict[str, list[Evidence]] = {}
        for item in mine:
            by_name.setdefault(_name(item), []).append(item)
        for hit in telling.answer.hits:
            known = by_name.pop(hit.name, [])
            if hit.unplaced:
                # It goes on, but nobody can say where: what is told of this node's GPUs stays as it is.
                for name in [name for name in by_name if name.split("/")[0] == hit.target.node]:
                    seen.evidence.extend(by_name.pop(name))
                continue
            how = Following(self._minimum_ms(detector), telling.question.span.start_ms, detector.momentary, hit.lost_of)
            followed = follow(hit.runs, known, self.window, how)
            seen.evidence.extend(followed.continued)
            if any(run.cut_off for run in followed.fresh):
                self.reach_further.add(detector.key)
            for run in followed.fresh:
                self._tell_run(telling, hit, run)
            if followed.lost:
                by_name[hit.name] = followed.lost
        left = [item for items in by_name.values() for item in items]
        if detector.clears:
            seen.evidence.extend(unlatch(left, telling.answer.clears, self.window))
        else:
            self._abandon(detector.key, left, telling.question.span.start_ms)

    def _tell_run(self, telling: _Telling, hit: Hit, run: Run) -> None:
        detector, seen = telling.detector, self.seen[telling.detector.key]
        place: Place | None = hit.place
        if place is None:
            # What roams was where it was at the onset: the same GPUs whichever window asks.
            place, findings = _roaming(hit.target, telling.question, telling.placer, run.start_ms)
            seen.findings.extend(findings)
        if place is None:
            seen.findings.append(Finding(SOURCE, hit.name, "none of its GPUs can be placed"))
            return
        item = Evidence(
            source=SOURCE,
            key=evidence_key(detector.key, detector.version, hit.name, run.start_ms),
            start_ms=run.start_ms,
            end_ms=run.end_ms,
            scope=place.scope,
            slots=place.slots,
            state=detector.state,
            cause=telling.cause.code,
            lost_ppm=hit.lost_of(run.start_ms, run.end_ms),
            detail=hit.target.detail or detector.why,
            job=hit.target.job or None,
            basis=detector.basis,
            earliest_start_ms=run.earliest_start_ms,
            earliest_end_ms=run.earliest_end_ms,
        )
        seen.evidence.append(item)

    def _end_what_nothing_follows(self, judged: Sequence[Judged]) -> None:
        """Ends evidence of detectors that the catalogue, or the site, no longer has."""
        alive = {detector.key for _, detector in judged}
        for item in self.told:
            key = detector_of(item) or ""
            if key not in alive and not gaps.is_hole(item):
                self.seen.setdefault(key, Observation([], []))
                self._abandon(key, [item], self.longest.start_ms)

    def _abandon(self, key: str, lost: Iterable[Evidence], seen_from_ms: int) -> None:
        for item in lost:
            ended = abandon(item, seen_from_ms, self.window)
            if ended is not item:
                self.reach_further.add(key)
                note = Finding(SOURCE, item.key, "no series stands for it any more: ended")
                self.seen[key].findings.append(note)
            self.seen[key].evidence.append(ended)


@dataclass(frozen=True, slots=True)
class _Telling:
    """What is being told: a detector's answer, and what it takes to place it."""

    cause: Cause
    detector: Detector
    question: Question
    placer: Placer
    answer: Answer


def _roaming(target: Target, question: Question, placer: Placer, at_ms: int) -> tuple[Place | None, list[Finding]]:
    """Gives where a job or an endpoint was at an instant."""
    found, teller = members(target, question, at_ms)
    if not found:
        # Dated by a range function, it may seem to begin before the job did.
        found, teller = members(target, question, at_ms + short_ms(question.grid.step_ms))
    if found:
        return placer.gpus(found, teller)
    words = question.site.scopes.get(target.endpoint)
    if words is None:
        return None, []
    place = placer.scope(words)
    return (None, [place]) if isinstance(place, Finding) else (place, [])


def _name(item: Evidence) -> str:
    """Gives the name under which a detector's hits are the same episode: the job or endpoint, or else the place."""
    return name_in_key(item) or item.scope


def _target(detector: Detector, item: Evidence) -> Target:
    """Gives whom evidence is about; of a GPU the node alone, since its scope does not say the address."""
    name = _name(item)
    if detector.scope == "job":
        return Target(job=item.job or name.removeprefix("job:"))
    if detector.scope == "endpoint":
        return Target(endpoint=name.removeprefix("endpoint:"))
    return Target(node=name.partition("/")[0])
