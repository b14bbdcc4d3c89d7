"""All installed time of a site with its price or without one: what no rate covers is a block of its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from warehouse.ledger.tariff import PriceBlock, price_blocks
from warehouse.model.fleet import Site, TenureBlock
from warehouse.model.rate import RateSpec
from warehouse.model.slots import SlotRanges, overlap
from warehouse.model.time import LAST_MS, Window


@dataclass(frozen=True, slots=True)
class InstalledBlock:
    """Installed slots x [start, end) by one card; `per_gpu_hour` and `rate_id` are None where no rate covers them."""

    card: str
    slots: SlotRanges
    start_ms: int
    end_ms: int
    model: str
    contract: str | None
    currency: str
    per_gpu_hour: Decimal | None = None
    rate_id: int | None = None


def installed_blocks(
    tenure: Iterable[TenureBlock], rates: Sequence[RateSpec], site: Site, card: str, window: Window, currency: str
) -> list[InstalledBlock]:
    """Gives a site's installed time in a window by one card.

    Args:
        tenure: of the whole fleet; blocks never overlap.
        rates: of all cards.
        site: whose slots and currency hold.
        card: the card to price by.
        window: what to give; blocks are clipped to it.
        currency: what an unpriced block is written in, since no rate says it.

    Law: the blocks tile the site's tenure in the window, each instant of a slot once.
    """
    inside = [part for block in tenure if (part := _clipped(block, site, window)) is not None]
    priced: dict[SlotRanges, list[PriceBlock]] = defaultdict(list)
    for found in price_blocks(inside, rates, [site], card):
        priced[found.slots].append(found)
    blocks = []
    for part in inside:
        at = part.start_ms
        end_ms = LAST_MS if part.end_ms is None else part.end_ms
        own = [p for p in priced[part.slots] if part.start_ms <= p.start_ms and p.end_ms <= end_ms]
        for p in sorted(own, key=lambda p: p.start_ms):
            if at < p.start_ms:
                blocks.append(InstalledBlock(card, part.slots, at, p.start_ms, part.model, part.contract, currency))
            blocks.append(
                InstalledBlock(
                    card, p.slots, p.start_ms, p.end_ms, p.model, p.contract, p.currency, p.per_gpu_hour, p.rate_id
                )
            )
            at = p.end_ms
        if at < end_ms:
            blocks.append(InstalledBlock(card, part.slots, at, end_ms, part.model, part.contract, currency))
    return blocks


def models_repriced(one: Iterable[InstalledBlock], other: Iterable[InstalledBlock]) -> set[str]:
    """Gives the models whose price differs somewhere between two tellings of the same installed time.

    Which stored rate says a price does not matter here, only what it says.
    """
    before, after = _told(one), _told(other)
    return {key[1] for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


_Told = dict[tuple[SlotRanges, str, str | None], list[tuple[int, int, object]]]


def _told(blocks: Iterable[InstalledBlock]) -> _Told:
    told: _Told = {}
    for b in sorted(blocks, key=lambda b: (b.slots, b.start_ms)):
        price = None if b.per_gpu_hour is None else (b.per_gpu_hour, b.currency)
        spans = told.setdefault((b.slots, b.model, b.contract), [])
        if spans and spans[-1][1] == b.start_ms and spans[-1][2] == price:
            spans[-1] = (spans[-1][0], b.end_ms, price)
        else:
            spans.append((b.start_ms, b.end_ms, price))
    return told


def _clipped(block: TenureBlock, site: Site, window: Window) -> TenureBlock | None:
    slots = overlap(block.slots, site.slots)
    start_ms = max(block.start_ms, window.start_ms)
    end_ms = window.end_ms if block.end_ms is None else min(block.end_ms, window.end_ms)
    return replace(block, slots=slots, start_ms=start_ms, end_ms=end_ms) if slots and start_ms < end_ms else None
