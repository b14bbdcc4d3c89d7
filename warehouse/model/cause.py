"""What a cause of loss is; the causes themselves are one file each in `warehouse/causes/`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from warehouse.model.state import State

UNATTRIBUTED = "unknown/unattributed"
SYMPTOM_RANK = 90
UNATTRIBUTED_RANK = 99


@dataclass(frozen=True, slots=True)
class Detector:
    """One way to see a cause in Prometheus series, as PromQL over our own metric names.

    `expr` is true (returns a series) while the condition holds; each returned series is one hit, placed by
    `scope` (`node`, `gpu` or `job`). `min_duration_ms` drops shorter hits: two scrapes, so that one lost scrape
    is no outage.
    """

    key: str
    version: int
    expr: str
    scope: str
    state: State
    min_duration_ms: int
    why: str


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause that GPU time can be charged to.

    `rank` decides only between unlinked causes: the lower owns the minutes; 90 and above but 99 are symptoms,
    which are never charged. `state` is the usual state. `opens_incident` is False for causes that are the normal
    course of things (a cold start, an idle allocation): time under them is no incident's loss.
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
    detectors: tuple[Detector, ...] = ()
    code: str = ""

    @property
    def is_symptom(self) -> bool:
        """Tells whether this is only a symptom: kept as evidence, never charged."""
        return self.rank == SYMPTOM_RANK


def known(causes: Mapping[str, Cause], code: str) -> Cause:
    """Gives a cause by code; one that left the catalogue keeps its code as its title, since history names it."""
    found = causes.get(code)
    return (
        found
        if found is not None
        else Cause(code, UNATTRIBUTED_RANK, None, "unknown", "no longer in the catalogue", "", "", "", "", code=code)
    )
