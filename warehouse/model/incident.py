"""An incident: evidence that belongs together, with the one cause that is charged."""

from __future__ import annotations

from dataclasses import dataclass

from warehouse.model.evidence import Evidence

BY_RULES = "rules"


@dataclass(frozen=True, slots=True)
class Incident:
    """A group of evidence in order of onset; `end_ms` None means that some of it is still open.

    `contributing` are the other causes that its evidence speaks for; they are charged with nothing. `set_by` is the
    person who ruled on the charged cause, or the rules.
    """

    cause: str
    members: tuple[Evidence, ...]
    contributing: tuple[str, ...] = ()
    set_by: str = BY_RULES
    reason: str = "stated by its evidence"

    @property
    def start_ms(self) -> int:
        """Gives the onset: the earliest start of its evidence."""
        return min(member.start_ms for member in self.members)

    @property
    def end_ms(self) -> int | None:
        """Gives the latest end of its evidence, or None while any is open."""
        ends = [member.end_ms for member in self.members]
        return None if None in ends else max(end for end in ends if end is not None)
