"""An incident: evidence that belongs together, with the one cause that is charged."""

from __future__ import annotations

from dataclasses import dataclass

from warehouse.model.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Incident:
    """A group of evidence in order of onset; `end_ms` None means that some of it is still open."""

    cause: str
    members: tuple[Evidence, ...]

    @property
    def start_ms(self) -> int:
        """Gives the onset: the earliest start of its evidence."""
        return min(member.start_ms for member in self.members)

    @property
    def end_ms(self) -> int | None:
        """Gives the latest end of its evidence, or None while any is open."""
        ends = [member.end_ms for member in self.members]
        return None if None in ends else max(end for end in ends if end is not None)
