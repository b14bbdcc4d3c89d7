"""The claim sweep: any number of overlapping claims in, the tiling of slots x time out.

Events are swept in time order over a map of slot segments. A segment is a run of slots with the same active
claims; it splits where a claim begins or ends inside it and heals as soon as its neighbour is equal again. So the
work follows the claims and the rectangles that they make: a hall outage over ten thousand slots is one event on
few segments, and ten times the GPUs under the same claims cost the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from operator import attrgetter

from sortedcontainers import SortedDict

from warehouse.ledger.resolve import Active, resolve
from warehouse.model.entry import Claim, Entry, Payload
from warehouse.model.time import Window

_order = attrgetter("order")


class _Segment:
    """A run of slots `[start, end)` in one payload since `since_ms`, between its neighbours on the slot axis."""

    __slots__ = ("active", "end", "following", "payload", "previous", "since_ms", "start", "touched")

    def __init__(self, start: int, end: int, since_ms: int) -> None:
        self.start = start
        self.end = end
        self.active: Active = ()
        self.payload: Payload | None = None
        self.since_ms = since_ms
        self.touched = False
        self.previous: _Segment | None = None
        self.following: _Segment | None = None

    def equals(self, other: _Segment) -> bool:
        """Tells whether both may be one segment: the same word since the same instant, from the same claims."""
        return self.since_ms == other.since_ms and self.active == other.active and self.payload == other.payload


def sweep(claims: Iterable[Claim], window: Window) -> list[Entry]:
    """Gives the canonical tiling of the window: every installed slot in exactly one state at every instant.

    Args:
        claims: in any order, with any duplication; tenure comes in as `floor` claims.
        window: entries are clipped to it; onsets are not, so a clipped claim keeps its place in the order.

    Returns:
        Entries sorted by (start, slot). Law: their area is the area of the floors inside the window, no two
        share a slot and an instant, and no two could be merged.
    """
    events = _events(claims, window)
    if not events:
        return []
    low = min(event[2] for event in events)
    high = max(event[3] for event in events)
    segments = _SegmentMap(low, high, window.start_ms)
    position = 0
    while position < len(events):
        at_ms = events[position][0]
        while position < len(events) and events[position][0] == at_ms:
            _, starts, slot_from, slot_to, claim = events[position]
            segments.change(slot_from, slot_to, claim, bool(starts))
            position += 1
        segments.settle(at_ms)
    return merge_slots(segments.entries)


def _events(claims: Iterable[Claim], window: Window) -> list[tuple[int, int, int, int, Claim]]:
    """Gives (time, 1 for a start and 0 for an end, slots from, to, claim) in time order, ends first."""
    events = []
    for claim in dict.fromkeys(claims):
        start_ms, end_ms = max(claim.start_ms, window.start_ms), min(claim.end_ms, window.end_ms)
        if start_ms >= end_ms:
            continue
        for slot_from, slot_to in claim.slots:
            events.append((start_ms, 1, slot_from, slot_to, claim))
            events.append((end_ms, 0, slot_from, slot_to, claim))
    events.sort(key=lambda event: event[:2])
    return events


class _SegmentMap:
    """The slot axis as a chain of segments; the sorted map only finds where on the chain a claim begins."""

    def __init__(self, low: int, high: int, start_ms: int) -> None:
        self._at: SortedDict[int, _Segment] = SortedDict({low: _Segment(low, high, start_ms)})
        self._touched: list[_Segment] = []
        self.entries: list[Entry] = []

    def change(self, slot_from: int, slot_to: int, claim: Claim, starts: bool) -> None:
        """Adds the claim to every segment in the range, or takes it away."""
        segment: _Segment | None = self._split(slot_from)
        if slot_to - slot_from > 1 or (segment is not None and segment.end != slot_to):
            self._split(slot_to)
        while segment is not None and segment.start < slot_to:
            active = segment.active
            at = bisect_left(active, claim.order, key=_order)
            segment.active = active[:at] + ((claim, *active[at:]) if starts else active[at + 1 :])
            if not segment.touched:
                segment.touched = True
                self._touched.append(segment)
            segment = segment.following

    def settle(self, at_ms: int) -> None:
        """Resolves what changed at this instant, emits what ended, and heals equal neighbours."""
        for segment in self._touched:
            payload = resolve(segment.active)
            if payload == segment.payload:
                continue
            if segment.payload is not None and segment.since_ms < at_ms:
                self.entries.append(Entry(segment.start, segment.end, segment.since_ms, at_ms, segment.payload))
            segment.payload, segment.since_ms = payload, at_ms
        for segment in self._touched:
            if segment.touched:
                segment.touched = False
                self._heal(segment)
        self._touched.clear()

    def _split(self, slot: int) -> _Segment | None:
        """Gives the segment that begins at the slot, cutting the one that holds it; None at the axis's far end."""
        found: _Segment | None = self._at.get(slot)
        if found is not None:
            return found
        index = self._at.bisect_right(slot) - 1
        left = self._at.peekitem(index)[1]
        if slot >= left.end:
            return None
        right = _Segment(slot, left.end, left.since_ms)
        right.active, right.payload, right.touched = left.active, left.payload, left.touched
        right.previous, right.following = left, left.following
        if left.following is not None:
            left.following.previous = right
        left.end, left.following = slot, right
        self._at[slot] = right
        if right.touched:
            self._touched.append(right)
        return right

    def _heal(self, segment: _Segment) -> None:
        while (left := segment.previous) is not None and left.equals(segment):
            self._absorb(left, segment)
            segment = left
        while (right := segment.following) is not None and segment.equals(right):
            self._absorb(segment, right)

    def _absorb(self, left: _Segment, right: _Segment) -> None:
        left.end, left.following = right.end, right.following
        if right.following is not None:
            right.following.previous = left
        right.touched = False
        del self._at[right.start]


def merge_slots(entries: Iterable[Entry]) -> list[Entry]:
    """Merges runs of neighbouring slots with equal time and payload; sorted by (start, slot)."""
    merged: list[Entry] = []
    for entry in sorted(entries, key=lambda e: (e.start_ms, e.end_ms, e.slot_from)):
        last = merged[-1] if merged else None
        if (
            last is not None
            and last.slot_to == entry.slot_from
            and last.start_ms == entry.start_ms
            and last.end_ms == entry.end_ms
            and last.payload == entry.payload
        ):
            merged[-1] = last._replace(slot_to=entry.slot_to)
        else:
            merged.append(entry)
    return sorted(merged, key=lambda e: (e.start_ms, e.slot_from))


def cut(entries: Iterable[Entry], cuts_ms: list[int]) -> list[Entry]:
    """Cuts entries at the given sorted instants and merges again inside each piece; no total changes.

    The stored ledger is cut at UTC midnights, so that any day can be derived again on its own.
    """
    pieces: list[Entry] = []
    for entry in entries:
        at = bisect_left(cuts_ms, entry.start_ms + 1)
        while at < len(cuts_ms) and cuts_ms[at] < entry.end_ms:
            pieces.append(entry._replace(end_ms=cuts_ms[at]))
            entry = entry._replace(start_ms=cuts_ms[at])
            at += 1
        pieces.append(entry)
    return merge_slots(pieces)
