"""Sets of slots as sorted, disjoint, non-touching half-open ranges of integer ids."""

from __future__ import annotations

from collections.abc import Iterable

SlotRanges = tuple[tuple[int, int], ...]

EVERYWHERE: SlotRanges = ((0, 2**31 - 1),)
"""Every slot there may be: ids are four-byte integers of the database."""


def normalise(ranges: Iterable[tuple[int, int]]) -> SlotRanges:
    """Gives the canonical form of any ranges: sorted, overlaps and neighbours merged, empty ones dropped."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if low >= high:
            continue
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


def overlap(left: SlotRanges, right: SlotRanges) -> SlotRanges:
    """Gives the slots that are in both sets, in canonical form."""
    found: list[tuple[int, int]] = []
    i = j = 0
    while i < len(left) and j < len(right):
        low, high = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if low < high:
            found.append((low, high))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return tuple(found)


def count(ranges: SlotRanges) -> int:
    """Gives the number of slots in a canonical set."""
    return sum(high - low for low, high in ranges)
