"""Which evidence belongs to one incident, and which cause it is charged to.

First cut of the attribution rules: same charged cause, overlapping slots (or, for what takes a whole domain, one
onset), touching in time. What people ruled stands
above them. Totals never depend on how evidence is grouped, since the entries are the tiling's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sortedcontainers import SortedDict

from warehouse.incidents import ruled
from warehouse.model.cause import UNATTRIBUTED, Cause, known
from warehouse.model.entry import id_order
from warehouse.model.evidence import Evidence
from warehouse.model.incident import BY_RULES, Incident
from warehouse.model.ruling import Name, Ruling, name_of
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
    evidence: Iterable[Evidence],
    causes: Mapping[str, Cause],
    windows: Sequence[Evidence] = (),
    rulings: Iterable[Ruling] = (),
) -> list[Incident]:
    """Groups evidence into incidents, in order of onset.

    Law: any order and any duplication of the input gives the same incidents; each piece of evidence that opens an
    incident is in exactly one.

    Args:
        evidence: what may open incidents; the rest is passed over.
        causes: the catalogue.
        windows: maintenance evidence, for overruns.
        rulings: what people decided, as far as it stands; it may name evidence that is not there.
    """
    members = sorted({e for e in evidence if opens_incident(e, causes)}, key=_order)
    codes = [charged_cause(m, causes, _overran(m, windows)) or str(m.cause) for m in members]
    said = ruled.in_order(rulings)
    apart = ruled.labels(said)
    forest = _Forest(len(members))
    _join_by_rules(forest, members, codes, apart)
    _join_domains(forest, members, codes, causes, apart)
    at: dict[Name, list[int]] = {}
    for number, member in enumerate(members):
        at.setdefault(name_of(member), []).append(number)
    for bond in ruled.bonds(said, apart):
        bound = [number for name in bond for number in at.get(name, ())]
        for number in bound[1:]:
            forest.join(bound[0], number)
    groups: dict[int, list[int]] = {}
    for number in range(len(members)):
        groups.setdefault(forest.root(number), []).append(number)
    return [
        _incident(
            [members[n] for n in joined],
            [codes[n] for n in joined],
            causes,
            ruled.decisive((name_of(members[n]) for n in joined), said, apart),
        )
        for _, joined in sorted(groups.items())
    ]


def _join_by_rules(
    forest: _Forest, members: Sequence[Evidence], codes: Sequence[str], apart: Mapping[Name, int]
) -> None:
    """Joins what has the same cause, is kept apart by no split, shares a slot and touches in time."""
    reach: dict[tuple[str, int], _Reach] = {}
    for number, member in enumerate(members):
        line = reach.setdefault((codes[number], apart.get(name_of(member), 0)), _Reach())
        until = _reach(member)
        for low, high in member.slots:
            for other_until, other in line.cover(low, high, until, number):
                if other_until >= member.start_ms:
                    forest.join(other, number)


def _join_domains(
    forest: _Forest,
    members: Sequence[Evidence],
    codes: Sequence[str],
    causes: Mapping[str, Cause],
    apart: Mapping[Name, int],
) -> None:
    """Joins what a detector saw a cause take at one time: the nodes of a hall without power share no slot."""
    last: dict[tuple[str, int], int] = {}
    for number, member in enumerate(members):
        within_ms = known(causes, codes[number]).joins_within_ms
        if not within_ms or member.source not in REOPEN_MS:
            continue
        line = (codes[number], apart.get(name_of(member), 0))
        before = last.get(line)
        if before is not None and member.start_ms - members[before].start_ms <= within_ms:
            forest.join(before, number)
        last[line] = number


def _incident(
    members: Sequence[Evidence], codes: Sequence[str], causes: Mapping[str, Cause], ruling: Ruling | None
) -> Incident:
    """Makes one incident of its evidence in order, the causes that the rules find for it, and what was ruled."""
    # Only people put evidence of several causes together; then the cause nearest to the root is the rules' word.
    by_rules = min(codes, key=lambda code: known(causes, code).rank)
    ruled_cause = None if ruling is None else ruling.cause
    cause = ruled_cause or by_rules
    stated = {m.cause for m in members if m.cause is not None}
    others = tuple(sorted((stated | set(codes)) - {cause, UNATTRIBUTED}))
    if ruling is not None and ruled_cause is not None:
        return Incident(cause, tuple(members), others, ruling.author, ruling.reason)
    if cause in stated:
        reason = "stated by its evidence"
    elif cause == UNATTRIBUTED:
        reason = "no evidence names a cause"
    else:
        reason = "began in a maintenance window and outlasted it"
    return Incident(cause, tuple(members), others, BY_RULES, reason)


class _Reach:
    """Until when evidence reaches on each run of slots, and which piece it is, of one cause and split.

    Of two pieces that both reach some instant the later one has joined the earlier, so the one that reaches furthest is
    enough to find them all. The work follows the pieces, not the slots: a hall is one run.
    """

    def __init__(self) -> None:
        self._runs: SortedDict[int, tuple[int, float, int]] = SortedDict()

    def cover(self, low: int, high: int, until: float, number: int) -> list[tuple[float, int]]:
        """Lays a piece over [low, high) where it reaches at least as far; gives (until, piece) of what was there."""
        self._cut(low)
        self._cut(high)
        met = []
        free = low  # where the new piece's next run begins
        for start in list(self._runs.irange(low, high, inclusive=(True, False))):
            end, other_until, other = self._runs[start]
            met.append((other_until, other))
            if other_until <= until:
                del self._runs[start]
                continue
            if free < start:
                self._runs[free] = (start, until, number)
            free = end
        if free < high:
            self._runs[free] = (high, until, number)
        return met

    def _cut(self, slot: int) -> None:
        at = self._runs.bisect_left(slot) - 1
        if at >= 0:
            start, (end, until, number) = self._runs.peekitem(at)
            if end > slot:
                self._runs[start] = (slot, until, number)
                self._runs[slot] = (end, until, number)


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
