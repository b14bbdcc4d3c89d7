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
    """A run of slots up to `end`, in one payload since `since_ms`."""

    __slots__ = ("active", "end", "payload", "since_ms", "touched")

    def __init__(self, end: int, active: Active, payload: Payload | None, since_ms: int, touched: bool) -> None:
        self.end = end
        self.active = active
        self.payload = payload
        self.since_ms = since_ms
        self.touched = touched


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
    for claim in set(claims):
        start_ms, end_ms = max(claim.start_ms, window.start_ms), min(claim.end_ms, window.end_ms)
        if start_ms >= end_ms:
            continue
        for slot_from, slot_to in claim.slots:
            events.append((start_ms, 1, slot_from, slot_to, claim))
            events.append((end_ms, 0, slot_from, slot_to, claim))
    events.sort(key=lambda event: event[:2])
    return events


class _SegmentMap:
    def __init__(self, low: int, high: int, start_ms: int) -> None:
        self._map: SortedDict[int, _Segment] = SortedDict()
        self._map[low] = _Segment(high, (), None, start_ms, False)
        self._touched: list[int] = []
        self.entries: list[Entry] = []

    def change(self, slot_from: int, slot_to: int, claim: Claim, starts: bool) -> None:
        """Adds the claim to every segment in the range, or takes it away."""
        self._split(slot_from)
        self._split(slot_to)
        for start in self._map.irange(slot_from, slot_to, inclusive=(True, False)):
            segment = self._map[start]
            at = bisect_left(segment.active, claim.order, key=_order)
            tail = segment.active[at:] if starts else segment.active[at + 1 :]
            segment.active = segment.active[:at] + ((claim,) if starts else ()) + tail
            if not segment.touched:
                segment.touched = True
                self._touched.append(start)

    def settle(self, at_ms: int) -> None:
        """Resolves what changed at this instant, emits what ended, and heals equal neighbours."""
        for start in self._touched:
            segment = self._map[start]
            segment.touched = False
            payload = resolve(segment.active)
            if payload == segment.payload:
                continue
            if segment.payload is not None and segment.since_ms < at_ms:
                self.entries.append(Entry(start, segment.end, segment.since_ms, at_ms, segment.payload))
            segment.payload, segment.since_ms = payload, at_ms
        for start in self._touched:
            self._heal(start)
        self._touched.clear()

    def _split(self, slot: int) -> None:
        index = self._map.bisect_right(slot) - 1
        if index < 0:
            return
        start, segment = self._map.peekitem(index)
        if start < slot < segment.end:
            right = _Segment(segment.end, segment.active, segment.payload, segment.since_ms, segment.touched)
            segment.end = slot
            self._map[slot] = right
            if right.touched:
                self._touched.append(slot)

    def _heal(self, start: int) -> None:
        index = self._map.bisect_left(start)
        for left in (index, index - 1):
            if left < 0 or left + 1 >= len(self._map):
                continue
            left_start, one = self._map.peekitem(left)
            right_start, two = self._map.peekitem(left + 1)
            if left_start > start or right_start < start:
                continue
            if one.since_ms == two.since_ms and one.active == two.active and one.payload == two.payload:
                one.end = two.end
                del self._map[right_start]


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
        start_ms = entry.start_ms
        for at in range(bisect_left(cuts_ms, start_ms + 1), len(cuts_ms)):
            if cuts_ms[at] >= entry.end_ms:
                break
            pieces.append(entry._replace(start_ms=start_ms, end_ms=cuts_ms[at]))
            start_ms = cuts_ms[at]
        pieces.append(entry._replace(start_ms=start_ms))
    return merge_slots(pieces)
