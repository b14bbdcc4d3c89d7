"""A ruling: what a person decided about an incident, bound to the evidence that it held at that moment."""

from __future__ import annotations

from dataclasses import dataclass

from warehouse.model.evidence import Evidence

# (source, key): what a piece of evidence is called, whatever is said of it later.
Name = tuple[str, str]

KINDS = ("attribute", "merge", "split", "note")


@dataclass(frozen=True, slots=True)
class Ruling:
    """Who decided what about which evidence, and why; of two that contradict, the one with the higher id holds.

    `incident_id` is the incident of whom it was said, of a merge the one that stays. `about` is all evidence of the
    incidents at that moment, `apart` the part that a split took off. `cause` is what is charged from then on: of an
    attribution the cause named, None where the rules decide again; of a merge what the one that stays was charged with.
    """

    kind: str
    incident_id: int
    about: frozenset[Name]
    author: str
    reason: str
    at_ms: int
    cause: str | None = None
    apart: frozenset[Name] = frozenset()
    id: int = 0

    @property
    def rest(self) -> frozenset[Name]:
        """Gives the evidence that stayed where it was when a split took the other part off."""
        return self.about - self.apart


def name_of(evidence: Evidence) -> Name:
    """Gives the name by which rulings know a piece of evidence."""
    return (evidence.source, evidence.key)
