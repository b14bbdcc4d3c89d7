"""What a cause of loss is; the causes themselves are one file each in `warehouse/causes/`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from warehouse.model.state import State

UNATTRIBUTED = "unknown/unattributed"
SYMPTOM_RANK = 90
UNATTRIBUTED_RANK = 99


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number of a detector that a site may set: its name in the template, default, unit and where it comes from.

    `allowed` names the only values that the series can tell apart, such as the bounds of a histogram; () allows any.
    """

    name: str
    default: float
    unit: str
    why: str
    allowed: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Witness:
    """A raw series whose samples date both edges: `metric{matchers}`, one per value of the labels `by`.

    A sample shows the condition where `op value` holds for it; `value` may be a template. Of several witnesses all
    must show it.
    """

    metric: str
    matchers: str
    by: tuple[str, ...]
    op: Literal["==", "!=", "<", "<=", ">", ">="] = "=="
    value: str = "0"


@dataclass(frozen=True, slots=True)
class Told:
    """What must be told of a worked example: about whom, and from when to when in seconds after its start.

    `about` is NODE, NODE/INDEX, the job or the endpoint, by the detector's scope; `end_s` None: still open at the end.
    """

    about: str
    start_s: float
    end_s: float | None
    lost_ppm: int | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """A worked example of a detector: series in promtool's notation, a sample every 15 s, and what must be told.

    Nodes that the series name exist with two GPUs each and are well where the series say nothing else. `also` names
    other detectors that rightly tell something here; every other one must be silent.
    """

    name: str
    series: Mapping[str, str]
    told: tuple[Told, ...] = ()
    also: tuple[str, ...] = ()


# How the function over `$window` moves the edges: the minimum becomes true late by up to the window, the maximum and
# any increase stay true late by it, a mean does half of each.
WindowOf = Literal["none", "min", "max", "mean"]


@dataclass(frozen=True, slots=True)
class FanIn:
    """Turns evidence of single nodes into that of their domain's cause: a share of a domain's nodes within a time."""

    of: str
    share_ppm: int
    within_ms: int
    at_least: int
    why: str


@dataclass(frozen=True, slots=True)
class Detector:
    """One way to see a cause in Prometheus series, as PromQL over our own metric names.

    Where another exporter stands in for ours, its names, units and labels are put in the place of ours; `node_*`,
    `kube_*`, `slurm_*`, `ipmi_*` and `vllm:*` are read as they are, with the label `node` (`endpoint`) made of what the
    site's labels say, and `DCGM_*` with `node`, `slot` and `uuid`. `$name` is a threshold, `$window` the length of the
    range functions, `$$` a dollar sign.

    Attributes:
        key: names its evidence, `det:{key}@{version}:...`.
        version: from 1; moves when the meaning does.
        expr: true (returns a series) while the condition holds; each returned series is one hit.
        scope: `node`, `gpu` (labels node and slot), `job` (job_id) or `endpoint`.
        state: what it says of the slots.
        min_duration_ms: shorter hits are dropped; at least two scrapes, so that one lost scrape is no outage.
        why: one sentence for the evidence.
        window_ms: value of `$window`; both edges are dated with the same expression over two scrapes.
        window_of: how the function over `$window` moves the edges.
        coarse: rare predicate over `$span`, asked once a look: gives (at least) every target of which `expr` may be
            true somewhere in the span, so that the rest of the fleet is not asked finely. "" where `expr` is cheap.
            Of a job it may give `job_id` with every node of it: then these nodes alone are asked.
        onset_expr: the condition at one instant, where `$window` alone does not give it.
        witnesses: see `Witness`; without any the edges stay on the evaluation grid.
        stitch_ms: hits of one target that are at most this far apart are one episode.
        basis: `measured` where the series say it themselves, `inferred` where it is concluded.
        lost_ppm: the part that is lost, where the kind of fault says it; None: by the state.
        lost_expr: the lost part, 0 to 1, per target, where the series say it; its mean over the episode is taken.
        clears: set for a latched fault: PromQL that gives the Unix time of what clears it (a boot, a replacement);
            the episode lasts until one lies after its onset, whatever the series do in between.
        dated_by_value: the value of `expr` is the Unix time of the onset.
        momentary: the fault is an event: it is counted, and its evidence has no length.
        max_steps: steps in one query, fewer where the expression joins several series of each GPU.
        severity: of the alert rule.
        fan_in: see `FanIn`; then `expr` is empty, and it speaks through the evidence of another detector.
        thresholds: see `Threshold`.
        cases: see `Case`; at least one that is told and one that is not.
    """

    key: str
    version: int
    expr: str
    scope: str
    state: State
    min_duration_ms: int
    why: str
    window_ms: int = 0
    window_of: WindowOf = "none"
    coarse: str = ""
    onset_expr: str = ""
    witnesses: tuple[Witness, ...] = ()
    stitch_ms: int = 0
    basis: str = "measured"
    lost_ppm: int | None = None
    lost_expr: str = ""
    clears: tuple[str, ...] = ()
    dated_by_value: bool = False
    momentary: bool = False
    max_steps: int = 1_000
    severity: Literal["page", "ticket", "info"] = "ticket"
    fan_in: FanIn | None = None
    thresholds: tuple[Threshold, ...] = ()
    cases: tuple[Case, ...] = ()


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause that GPU time can be charged to.

    `rank` decides only between unlinked causes: the lower owns the minutes; 90 and above but 99 are symptoms,
    which are never charged. `state` is the usual state. `opens_incident` is False for causes that are the normal
    course of things (a cold start, an idle allocation): time under them is no incident's loss. `payer` says who bears
    the loss in a bill: `provider`, `tenant` or `nobody` (a symptom, what nobody knows). `runbook` is what to do, step
    by step, after `first_step`. `other_sources` names what else can see it: a log, an accounting table, a person.
    """

    title: str
    rank: int
    state: State | None
    owner: str
    signature: str
    duration: str
    blast: str
    source: str
    first_step: str
    opens_incident: bool = True
    payer: str = "provider"
    runbook: tuple[str, ...] = ()
    other_sources: tuple[str, ...] = ()
    detectors: tuple[Detector, ...] = ()
    code: str = ""

    @property
    def is_symptom(self) -> bool:
        """Tells whether this is only a symptom: kept as evidence, never charged."""
        return self.rank == SYMPTOM_RANK

    @property
    def joins_within_ms(self) -> int:
        """Gives within what time evidence of this cause is one incident wherever it lies; 0: only on common slots.

        A hall that loses its power takes nodes that share no slot.
        """
        return max((detector.fan_in.within_ms for detector in self.detectors if detector.fan_in), default=0)


def known(causes: Mapping[str, Cause], code: str) -> Cause:
    """Gives a cause by code; one that left the catalogue keeps its code as its title, since history names it."""
    found = causes.get(code)
    return (
        found
        if found is not None
        else Cause(code, UNATTRIBUTED_RANK, None, "unknown", "no longer in the catalogue", "", "", "", "", code=code)
    )
