"""Which price holds where and when: tenure and dated rates become blocks of slots x time at one price."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from warehouse.model.fleet import Site, TenureBlock
from warehouse.model.rate import RateSpec
from warehouse.model.slots import SlotRanges, overlap
from warehouse.model.time import LAST_MS


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


def price_blocks(
    tenure: Iterable[TenureBlock], rates: Iterable[RateSpec], sites: Sequence[Site], card: str
) -> list[PriceBlock]:
    """Gives what installed GPUs cost by one card, in order of slots and time; what no block covers is unpriced.

    A rate of the GPU's own contract goes before one without contract; a site without a currency takes the rates of
    the card in whatever currency they are.

    Law: no instant of a slot has two prices, as far as the rates of a (model, contract, currency) do not overlap.
    """
    by_line: dict[tuple[str, str | None], list[RateSpec]] = defaultdict(list)
    for rate in rates:
        if rate.card == card:
            by_line[rate.model, rate.contract].append(rate)
    blocks = []
    for block in tenure:
        for site in sites:
            slots = overlap(block.slots, site.slots)
            if not slots:
                continue
            own = _in_currency(by_line[block.model, block.contract], site.currency) if block.contract else []
            general = _in_currency(by_line[block.model, None], site.currency)
            free = [(block.start_ms, LAST_MS if block.end_ms is None else block.end_ms)]
            for rate in (*own, *general):
                taken, free = _take(free, rate)
                blocks += [
                    PriceBlock(
                        slots, start, end, block.model, block.contract, rate.currency, rate.per_gpu_hour, rate.id
                    )
                    for start, end in taken
                ]
    return sorted(blocks, key=lambda b: (b.slots, b.start_ms))


def _in_currency(rates: Iterable[RateSpec], currency: str | None) -> list[RateSpec]:
    return [rate for rate in rates if currency in (None, rate.currency)]


Spans = list[tuple[int, int]]


def _take(free: Spans, rate: RateSpec) -> tuple[Spans, Spans]:
    """Gives the part of the free spans that the rate covers, and what stays free."""
    end_ms = LAST_MS if rate.end_ms is None else rate.end_ms
    taken: Spans = []
    left: Spans = []
    for low, high in free:
        start, end = max(low, rate.start_ms), min(high, end_ms)
        if start >= end:
            left.append((low, high))
            continue
        taken.append((start, end))
        left += [part for part in ((low, start), (end, high)) if part[0] < part[1]]
    return taken, left
