"""Which evidence belongs to one incident, and which cause it is charged to.

First cut of the attribution rules: same charged cause, overlapping slots, touching in time. Totals never depend on
how evidence is grouped, since the entries are the tiling's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from warehouse.model.cause import UNATTRIBUTED, Cause, known
from warehouse.model.entry import id_order
from warehouse.model.evidence import Evidence
from warehouse.model.incident import Incident
from warehouse.model.slots import normalise, overlap
from warehouse.model.state import UNPLANNED, UNPLANNED_IF_LINKED, State

# Episodes of a detector closer than this are one incident that flapped; the hole between stays what it was.
# A file's records are incidents already: only those that overlap or touch belong together.
REOPEN_MS = {"detector": 600_000}

DEFAULT_CAUSE = {
    State.MAINTENANCE: "operations/planned_maintenance",
    State.STRANDED: "capacity/stranded",
}


def charged_cause(evidence: Evidence, causes: Mapping[str, Cause], overran: bool = False) -> str | None:
    """Gives the cause that this evidence's time is charged to, None where its state needs none.

    A symptom is never charged: its time is unattributed until a cause is linked. Trouble that began inside a
    maintenance window and outlasted it, with no cause of its own, is the window's overrun.
    """
    stated = evidence.cause
    if stated is not None and not known(causes, stated).is_symptom:
        return stated
    if evidence.state not in UNPLANNED:
        return DEFAULT_CAUSE.get(evidence.state)
    return "operations/unplanned_maintenance" if overran else UNATTRIBUTED


def opens_incident(evidence: Evidence, causes: Mapping[str, Cause]) -> bool:
    """Tells whether this is somebody's trouble: unplanned loss, or a start, save or wait that a fault caused."""
    if evidence.state in UNPLANNED:
        return True
    if evidence.state not in UNPLANNED_IF_LINKED or evidence.cause is None:
        return False
    cause = known(causes, evidence.cause)
    return cause.opens_incident and not cause.is_symptom


def group(
    evidence: Iterable[Evidence], causes: Mapping[str, Cause], windows: Sequence[Evidence] = ()
) -> list[Incident]:
    """Groups evidence into incidents, in order of onset.

    Law: any order and any duplication of the input gives the same incidents; each piece of evidence that opens an
    incident is in exactly one.

    Args:
        evidence: what may open incidents; the rest is passed over.
        causes: the catalogue.
        windows: maintenance evidence, for overruns.
    """
    members = sorted({e for e in evidence if opens_incident(e, causes)}, key=_order)
    forest = _Forest(len(members))
    codes: list[str] = []
    # Per cause and slot: until when the evidence there reaches, and one of its pieces. Of two pieces that both reach
    # here the later one has joined the earlier, so one is enough to find them all.
    reach: dict[tuple[str, int], tuple[float, int]] = {}
    for number, member in enumerate(members):
        code = charged_cause(member, causes, _overran(member, windows)) or str(member.cause)
        codes.append(code)
        until = _reach(member)
        for slot in (s for low, high in member.slots for s in range(low, high)):
            before = reach.get((code, slot))
            if before is not None and before[0] >= member.start_ms:
                forest.join(before[1], number)
            if before is None or until >= before[0]:
                reach[code, slot] = (until, number)
    groups: dict[int, list[Evidence]] = {}
    for number, member in enumerate(members):
        groups.setdefault(forest.root(number), []).append(member)
    return [Incident(codes[first], tuple(joined)) for first, joined in sorted(groups.items())]


class _Forest:
    """Sets that only ever join; the smallest number of a set is its root, which here is its earliest member."""

    def __init__(self, size: int) -> None:
        self._parent = list(range(size))

    def root(self, item: int) -> int:
        """Gives the root of the set that holds the item."""
        while self._parent[item] != item:
            self._parent[item] = self._parent[self._parent[item]]
            item = self._parent[item]
        return item

    def join(self, one: int, other: int) -> None:
        """Makes one set of two."""
        low, high = sorted((self.root(one), self.root(other)))
        self._parent[high] = low


def _order(evidence: Evidence) -> tuple[object, ...]:
    return (evidence.start_ms, id_order(evidence.key), evidence.source)


def _reach(evidence: Evidence) -> float:
    if evidence.end_ms is None:
        return float("inf")
    return evidence.end_ms + REOPEN_MS.get(evidence.source, 0)


def _overran(evidence: Evidence, windows: Sequence[Evidence]) -> bool:
    """Tells whether it began inside windows that together cover all of its slots, and outlasted one of them.

    A window that was declared late owns nothing that was running by then, so that did not begin inside it either.
    """
    inside = [
        window
        for window in windows
        if window.end_ms is not None and window.onset_ms <= evidence.start_ms < window.end_ms
    ]
    slots = normalise(part for window in inside for part in window.slots)
    return overlap(slots, evidence.slots) == evidence.slots and any(
        evidence.end_ms is None or (window.end_ms is not None and evidence.end_ms > window.end_ms)
        for window in inside
        if overlap(window.slots, evidence.slots)
    )
