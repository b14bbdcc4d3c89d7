"""Whom a hit is about, and over what a detector is asked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from exporter.slot import normalise_slot
from warehouse.detect.holes import Watch
from warehouse.detect.runs import Grid
from warehouse.detect.site import Site
from warehouse.evidence.prometheus import Labels, PrometheusClient
from warehouse.model.time import Window


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """What a hit is about, as the series name it; `address` is the GPU's on its node."""

    node: str = ""
    address: str = ""
    job: str = ""
    endpoint: str = ""
    uuid: str = field(default="", compare=False)

    @property
    def roaming(self) -> str:
        """Gives the name of what may run anywhere, a job or an endpoint, "" for a node and a GPU."""
        return f"job:{self.job}" if self.job else f"endpoint:{self.endpoint}" if self.endpoint else ""

    @property
    def detail(self) -> str:
        """Gives the GPU in words, "" where the scope says all."""
        return f"{self.uuid or 'a GPU without uuid'} at {self.address}" if self.address else ""


@dataclass(frozen=True, slots=True)
class Question:
    """What one detector is asked over: its span and grid, where, who watches whom, which series there are.

    `recent` is the end of the span in which the condition must hold of whoever is told anew.
    """

    span: Window
    grid: Grid
    client: PrometheusClient
    watch: Watch
    site: Site
    names: frozenset[str]
    recent: Window


def one_of(label: str, values: Iterable[str]) -> str:
    """Gives a PromQL matcher for any of the values, taken literally."""
    pattern = "|".join(re.escape(value) for value in sorted(set(values)))
    escaped = pattern.replace("\\", "\\\\").replace('"', '\\"')
    return f'{label}=~"{escaped}"'


def target_of(scope: str, labels: Labels) -> Target:
    """Gives the target of a series that has the labels of its scope."""
    if scope == "job":
        return Target(job=labels["job_id"])
    if scope == "endpoint":
        return Target(endpoint=labels["endpoint"])
    if scope == "gpu":
        return Target(node=labels["node"], address=address(labels["slot"]), uuid=labels.get("uuid", ""))
    return Target(node=labels["node"])


def address(said: str) -> str:
    """Gives a PCI address in our spelling; what is none, such as a number of the GPU, stays as it is."""
    try:
        return normalise_slot(said)
    except ValueError:
        return said


def missing_label(scope: str, labels: Mapping[str, str], needed: Mapping[str, tuple[str, ...]]) -> str | None:
    """Gives the first label that a hit of this scope lacks, None where it has all."""
    return next((label for label in needed[scope] if not labels.get(label)), None)
