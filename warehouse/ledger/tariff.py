"""Which price holds where and when: tenure and dated rates become blocks of slots x time at one price.

The one place that says it. Prices are looked up by the time of what they price and by the rates of a revision, never
by the present; what no rate covers has no price, and no other one is taken in its place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from warehouse.model.fleet import Site, TenureBlock
from warehouse.model.rate import RateSpec
from warehouse.model.slots import SlotRanges, normalise, overlap
from warehouse.model.time import LAST_MS

Spans = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class PriceBlock:
    """Slots x [start, end) at one price; blocks of one card never overlap. `rate_id` is the stored rate."""

    slots: SlotRanges
    start_ms: int
    end_ms: int
    model: str
    contract: str | None
    currency: str
    per_gpu_hour: Decimal
    rate_id: int | None


@dataclass(frozen=True, slots=True)
class Unpriced:
    """Slots x [start, end) that a card has no price for; `end_ms` None means until further notice."""

    slots: SlotRanges
    start_ms: int
    end_ms: int | None
    model: str
    contract: str | None


def price_blocks(
    tenure: Iterable[TenureBlock], rates: Iterable[RateSpec], sites: Sequence[Site], card: str
) -> list[PriceBlock]:
    """Gives what installed GPUs cost by one card, in order of slots and time; what no block covers is unpriced.

    A rate of the GPU's own contract goes before one without contract. The site's currency picks among those of the
    card; a site without one takes the rates in whatever currency they are, and no rate at all where two of them
    would do: nobody said which.

    Law: no instant of a slot has two prices, as far as the rates of a line do not overlap.
    """
    blocks = [
        PriceBlock(
            slots, start_ms, end_ms, block.model, block.contract, rate.currency, rate.per_gpu_hour, rate.id
        )
        for block, slots, taken, _ in _priced(tenure, rates, sites, card)
        for rate, start_ms, end_ms in taken
    ]  # fmt: skip
    return sorted(blocks, key=lambda b: (b.slots, b.start_ms))


def unpriced(
    tenure: Iterable[TenureBlock], rates: Iterable[RateSpec], sites: Sequence[Site], card: str
) -> list[Unpriced]:
    """Gives what a card has no price for, GPUs of one model, contract and span together, the oldest first.

    Law: with `price_blocks` it covers all tenure, each instant of a slot once.
    """
    gaps: dict[tuple[int, int | None, str, str | None], list[tuple[int, int]]] = defaultdict(list)
    for block, slots, _, free in _priced(tenure, rates, sites, card):
        for start_ms, end_ms in free:
            open_end = block.end_ms is None and end_ms == LAST_MS
            gaps[start_ms, None if open_end else end_ms, block.model, block.contract] += slots
    found = [Unpriced(normalise(slots), *what) for what, slots in gaps.items()]
    return sorted(found, key=lambda g: (g.start_ms, g.model, g.contract or "", g.slots))


@dataclass(frozen=True, slots=True)
class Moved:
    """Over [start, end) the slots of `old` cost what `new` says; None: they have no price any more."""

    old: PriceBlock
    new: PriceBlock | None
    start_ms: int
    end_ms: int


def moved(before: Sequence[PriceBlock], after: Sequence[PriceBlock], until_ms: int) -> list[Moved]:
    """Gives where a price that held before `until_ms` is another one now; what had none before is not in it.

    Args:
        before: blocks of one card.
        after: blocks of the same card, tenure and sites by other rates.
        until_ms: what lies behind is passed over.
    """
    by_slots: dict[SlotRanges, list[PriceBlock]] = defaultdict(list)
    for block in after:
        by_slots[block.slots].append(block)
    found = []
    for old in before:
        free = [(old.start_ms, min(old.end_ms, until_ms))] if old.start_ms < until_ms else []
        for new in by_slots[old.slots]:
            taken, free = _take(free, new.start_ms, new.end_ms)
            if (new.currency, new.per_gpu_hour) != (old.currency, old.per_gpu_hour):
                found += [Moved(old, new, *span) for span in taken]
        found += [Moved(old, None, *span) for span in free]
    return sorted(found, key=lambda m: (m.start_ms, m.old.slots))


def ambiguous(
    tenure: Iterable[TenureBlock], rates: Sequence[RateSpec], sites: Sequence[Site]
) -> Iterator[tuple[Site, RateSpec, RateSpec]]:
    """Yields what no price can be picked from: a site without a currency, and two rates in two that hold there at once.

    Each pair comes once a site.
    """
    bare = [site for site in sites if site.currency is None]
    installed = [(block, site) for block in tenure for site in bare if overlap(block.slots, site.slots)]
    told = set()
    for block, site in installed:
        here = [
            r for r in rates if r.model == block.model and r.contract in (None, block.contract) and _meets(r, block)
        ]
        for number, one in enumerate(here):
            for other in here[number + 1 :]:
                rivals = (one.card, one.contract) == (other.card, other.contract) and one.currency != other.currency
                if rivals and one.overlaps(other) and (site.id, one, other) not in told:
                    told.add((site.id, one, other))
                    yield site, one, other


def _meets(rate: RateSpec, block: TenureBlock) -> bool:
    return (block.end_ms is None or rate.start_ms < block.end_ms) and (
        rate.end_ms is None or rate.end_ms > block.start_ms
    )


Taken = list[tuple[RateSpec, int, int]]


def _priced(
    tenure: Iterable[TenureBlock], rates: Iterable[RateSpec], sites: Sequence[Site], card: str
) -> Iterator[tuple[TenureBlock, SlotRanges, Taken, Spans]]:
    """Yields each block's slots of one site, with the rates that hold there, and when none does."""
    by_line: dict[tuple[str, str | None], list[RateSpec]] = defaultdict(list)
    for rate in rates:
        if rate.card == card:
            by_line[rate.model, rate.contract].append(rate)
    for block in tenure:
        own = by_line[block.model, block.contract] if block.contract is not None else []
        for site in sites:
            slots = overlap(block.slots, site.slots)
            if not slots:
                continue
            taken: Taken = []
            free = [(block.start_ms, _end(block.end_ms))]
            gaps: Spans = []
            for tier in (own, by_line[block.model, None]):
                here = [rate for rate in tier if site.currency in (None, rate.currency)]
                for start_ms, end_ms in _contested(here):
                    cut, free = _take(free, start_ms, end_ms)
                    gaps += cut
                for rate in here:
                    spans, free = _take(free, rate.start_ms, _end(rate.end_ms))
                    taken += [(rate, start_ms, end_ms) for start_ms, end_ms in spans]
            yield block, slots, taken, list(normalise(gaps + free))


def _contested(rates: Sequence[RateSpec]) -> Spans:
    """Gives when two currencies have a price: with the site's own there is but one."""
    return [
        (max(one.start_ms, other.start_ms), min(_end(one.end_ms), _end(other.end_ms)))
        for number, one in enumerate(rates)
        for other in rates[number + 1 :]
        if one.currency != other.currency and one.overlaps(other)
    ]


def _end(end_ms: int | None) -> int:
    return LAST_MS if end_ms is None else end_ms


def _take(free: Spans, start_ms: int, end_ms: int) -> tuple[Spans, Spans]:
    """Gives the part of the free spans that lies in [start, end), and what stays free."""
    taken: Spans = []
    left: Spans = []
    for low, high in free:
        start, end = max(low, start_ms), min(high, end_ms)
        if start >= end:
            left.append((low, high))
            continue
        taken.append((start, end))
        left += [part for part in ((low, start), (end, high)) if part[0] < part[1]]
    return taken, left
