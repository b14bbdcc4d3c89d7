"""The axes that sums are taken along: slots cut where price, model or place change, time cut where prices change.

Everything here is pure; `tiles` asks the database along these cuts. Inside one cell (a segment of slots x a span of
time) every installed GPU has one model, one price and one place.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from warehouse.ledger.tariff import PriceBlock
from warehouse.model.fleet import TenureBlock
from warehouse.model.slots import normalise
from warehouse.model.time import LAST_MS, Window
from warehouse.views.exact import rate_units

# Slots [low, high) that carry a name.
Named = tuple[int, int, str]

_FIRST = -1


class Price(NamedTuple):
    """The stored rate that prices a cell; `units` are those of `exact.rate_units`, per GPU-hour."""

    rate_id: int | None
    model: str
    currency: str
    units: int


class Cell(NamedTuple):
    """What holds of every installed GPU of a cell; `price` None where no block covers it."""

    model: str
    price: Price | None


@dataclass(frozen=True, slots=True)
class _Step:
    """From here on, until the next step, a segment has this cell."""

    start_ms: int
    cell: Cell


_Item = TenureBlock | PriceBlock


class Axes:
    """The cuts of a question, and what holds between them.

    `slot_cuts` and `time_cuts` are inner cuts: segment n lies before `slot_cuts[n]`, span n before `time_cuts[n]`.
    Slots that never held a GPU belong to the segment before them: no tile lies there.
    """

    def __init__(
        self,
        window: Window,
        tenure: Sequence[TenureBlock],
        prices: Sequence[PriceBlock],
        places: Sequence[Named] = (),
        spans: Sequence[tuple[int, str]] = (),
    ) -> None:
        """Lays out the axes.

        Args:
            window: nothing outside it matters.
            tenure: what is installed.
            prices: what it costs; see `price_blocks`.
            places: disjoint named slots in order; empty where no place is asked for.
            spans: (start, name) of the days or months of the window, in order; empty where none are asked for.
        """
        profiles = _profiles(window, tenure, prices)
        starts = sorted({low for low, _ in profiles} | {low for low, _, _ in places})
        self.slot_cuts = starts[1:]
        at = [low for low, _ in profiles]
        self._steps = [profiles[max(0, bisect_right(at, low) - 1)][1] if profiles else () for low in starts] or [()]
        self._places = _names(starts, places)
        inner = {step.start_ms for steps in self._steps for step in steps[1:]} | {start for start, _ in spans[1:]}
        self.time_cuts = sorted(cut for cut in inner if window.start_ms < cut < window.end_ms)
        self._span_starts = [window.start_ms, *self.time_cuts]
        at = [start for start, _ in spans]
        self._spans = [spans[bisect_right(at, start) - 1][1] if spans else "" for start in self._span_starts]

    def segment(self, slot: int) -> int:
        """Gives the segment that a slot lies in."""
        return bisect_right(self.slot_cuts, slot)

    def span(self, at_ms: int) -> int:
        """Gives the span that an instant lies in."""
        return bisect_right(self.time_cuts, at_ms)

    def place(self, segment: int) -> str:
        """Gives the name of the place that a segment lies in."""
        return self._places[segment]

    def bucket(self, span: int) -> str:
        """Gives the name of the day or month that a span lies in."""
        return self._spans[span]

    def cell(self, segment: int, span: int) -> Cell:
        """Gives model and price; a cell without any installed GPU has neither."""
        steps = self._steps[segment]
        if not steps:
            return Cell("", None)
        at = bisect_right(steps, self._span_starts[span], key=lambda step: step.start_ms)
        return steps[max(0, at - 1)].cell


def _names(starts: Sequence[int], places: Sequence[Named]) -> list[str]:
    if not places:
        return [""] * max(1, len(starts))
    lows = [low for low, _, _ in places]
    return [places[max(0, bisect_right(lows, start) - 1)][2] for start in starts]


def _profiles(
    window: Window, tenure: Sequence[TenureBlock], prices: Sequence[PriceBlock]
) -> list[tuple[int, tuple[_Step, ...]]]:
    """Gives where on the slot axis the steps change, and the steps from there on; slots without a GPU are skipped."""
    everything: list[_Item] = [*tenure, *prices]
    items = [item for item in everything if _touches(item, window)]
    edges = [(low, True, at) for at, item in enumerate(items) for low, _ in item.slots]
    edges += [(high, False, at) for at, item in enumerate(items) for _, high in item.slots]
    edges.sort()
    known: dict[frozenset[int], tuple[_Step, ...]] = {}
    alike: dict[tuple[_Step, ...], tuple[_Step, ...]] = {}
    found: list[tuple[int, tuple[_Step, ...]]] = []
    active: set[int] = set()
    for number, (slot, enters, at) in enumerate(edges):
        (active.add if enters else active.discard)(at)
        if not active or (number + 1 < len(edges) and edges[number + 1][0] == slot):
            continue
        key = frozenset(active)
        if key not in known:
            steps = _steps([items[i] for i in sorted(key)])
            known[key] = alike.setdefault(steps, steps)
        if not found or found[-1][1] is not known[key]:
            found.append((slot, known[key]))
    return found


def _touches(item: _Item, window: Window) -> bool:
    return item.start_ms < window.end_ms and (item.end_ms is None or item.end_ms > window.start_ms)


def _steps(items: Iterable[_Item]) -> tuple[_Step, ...]:
    """Gives the cells of one slot through time; time without a GPU belongs to the step before it."""
    spells = [(item.start_ms, LAST_MS if item.end_ms is None else item.end_ms, item) for item in items]
    bounds = sorted({edge for start, end, _ in spells for edge in (start, end)})
    steps: list[_Step] = []
    for start in bounds[:-1]:
        here = [item for first, last, item in spells if first <= start < last]
        model = next((item.model for item in here if isinstance(item, TenureBlock)), None)
        if model is None:
            continue
        cell = Cell(model, next((_price(item) for item in here if isinstance(item, PriceBlock)), None))
        if not steps or steps[-1].cell != cell:
            steps.append(_Step(start if steps else _FIRST, cell))
    return tuple(steps)


def _price(block: PriceBlock) -> Price:
    return Price(block.rate_id, block.model, block.currency, rate_units(block.per_gpu_hour))


def spread(axes: Axes, rectangles: Iterable[tuple[int, int, int]]) -> dict[int, int]:
    """Gives each segment its part of rectangles (low, high, amount per slot): exact, and cheap however wide they are.

    A rectangle adds its ends to two segments and marks where it covers whole ones; one walk then adds the marks up.
    """
    cuts = axes.slot_cuts
    found: dict[int, int] = {}
    marks: dict[int, int] = {}
    for low, high, amount in rectangles:
        first, last = bisect_right(cuts, low), bisect_left(cuts, high)
        if first == last:
            found[first] = found.get(first, 0) + (high - low) * amount
            continue
        found[first] = found.get(first, 0) + (cuts[first] - low) * amount
        found[last] = found.get(last, 0) + (high - cuts[last - 1]) * amount
        marks[first + 1] = marks.get(first + 1, 0) + amount
        marks[last] = marks.get(last, 0) - amount
    covered = 0
    ordered = sorted(marks)
    for at, following in pairwise(ordered):
        covered += marks[at]
        if covered:
            for segment in range(at, following):
                found[segment] = found.get(segment, 0) + (cuts[segment] - cuts[segment - 1]) * covered
    return found


def bridged(tenure: Sequence[TenureBlock]) -> list[TenureBlock]:
    """Gives tenure with few, long ranges: a gap in which no GPU ever sat is filled, for nothing is said of it."""
    installed = normalise(part for block in tenure for part in block.slots)
    highs = [high for _, high in installed]
    found = []
    for block in tenure:
        ranges = [block.slots[0]]
        for low, high in block.slots[1:]:
            before = ranges[-1][1]
            following = bisect_right(highs, before)
            if installed[following][0] >= low:
                ranges[-1] = (ranges[-1][0], high)
            else:
                ranges.append((low, high))
        found.append(replace(block, slots=tuple(ranges)))
    return found
