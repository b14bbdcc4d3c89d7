"""The words of detection: what goes in, what comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from warehouse.detect.site import Site
from warehouse.model.evidence import Evidence
from warehouse.model.slots import SlotRanges
from warehouse.model.time import MS_PER_HOUR, MS_PER_SECOND

SOURCE = "detector"


class Resolver(Protocol):
    """Knows which slots a node has; the fleet's geography stays out of detection."""

    def node(self, name: str) -> SlotRanges | None:
        """Gives all slots of a node, or None for a node that the fleet does not know."""

    def gpu(self, node: str, position: int) -> SlotRanges | None:
        """Gives the slot of the GPU at a position from 0 in its node, or None when there is none."""

    def position(self, node: str, uuid: str) -> int | None:
        """Gives the position of a GPU in its node by its UUID, or None where the fleet does not know it there."""

    def domains(self, node: str) -> Sequence[str]:
        """Gives the domains of a node in words, such as `rack:r7`: what may take all of their nodes at once."""

    def size(self, domain: str) -> int:
        """Gives how many nodes a domain has."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How the fleet is scraped.

    Attributes:
        scrape_interval_ms: milliseconds between two scrapes of a target, and between two evaluations.
        hole_intervals: samples further apart than this many intervals leave a hole between them.
        onset_reach_ms: how far before the window to look for the onset of what already lasted at its start.
        site: labels, jobs and thresholds.
    """

    scrape_interval_ms: int = 15 * MS_PER_SECOND
    hole_intervals: int = 3
    onset_reach_ms: int = 6 * MS_PER_HOUR
    site: Site = Site()  # noqa: RUF009 - frozen

    @property
    def hole_ms(self) -> int:
        """Gives the longest distance of two samples that is no hole yet, in milliseconds."""
        return self.hole_intervals * self.scrape_interval_ms


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """Input that could not be used: counted and shown, never guessed around."""

    source: str
    where: str
    message: str


@dataclass(frozen=True, slots=True)
class Observation:
    """What one window gave: evidence in order of (start, key), findings in order and without repeats.

    `blind` are the detectors of whose series there was none in the window.
    """

    evidence: list[Evidence]
    findings: list[Finding]
    blind: frozenset[str] = frozenset()
