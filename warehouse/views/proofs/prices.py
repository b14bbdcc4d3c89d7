"""Law 4 in money: an installed instant has at most one price on a card, and what has none is told, never guessed."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, text

from warehouse.ledger.laws import installed_gpu_ms
from warehouse.ledger.tariff import PriceBlock, price_blocks
from warehouse.model.slots import count
from warehouse.model.time import Window, format_instant
from warehouse.report.figures import minutes
from warehouse.store import fleet, rates
from warehouse.store.revisions import Revision
from warehouse.views.proofs.places import booked_span, slot_name

# Over all revisions: the rates of one line never overlap in time where both are believed.
_TWO_RATES = """
select l.card, l.model, ms_of(lower(a.effective * b.effective)) as at_ms, lower(a.revs * b.revs) as rev
from rate a join rate b on b.line_id = a.line_id and a.ctid < b.ctid and a.effective && b.effective and a.revs && b.revs
join rate_line l on l.id = a.line_id order by 1, 2, 3 limit 1
"""


def one_price(connection: Connection, revision: Revision) -> str | None:
    """No line of a card has two rates at once, and no instant of an installed GPU has two prices on a card."""
    two = connection.execute(text(_TWO_RATES)).first()
    if two is not None:
        at = format_instant(two.at_ms)
        return f"card {two.card} has two rates for {two.model} at {at}, since revision {two.rev}"
    for card, blocks in _by_card(connection, revision).items():
        twice = _priced_twice(blocks)
        if twice is not None:
            where = slot_name(connection, revision.rev, twice[0])
            return f"{where} has two prices on card {card} at {format_instant(twice[1])}"
    return None


def unpriced(connection: Connection, revision: Revision) -> str:
    """Tells how much of the booked time each card leaves without a price: information, and no broken law."""
    span = booked_span(connection, revision)
    cards = _by_card(connection, revision)
    if span is None or not cards:
        return "no instant has two prices; no rate card is loaded" if not cards else "no instant has two prices"
    installed = installed_gpu_ms(fleet.tenure_blocks(connection, revision.rev), span)
    told = []
    for card, blocks in cards.items():
        left = installed - sum(_area(block, span) for block in blocks)
        told.append(f"card {card} leaves {minutes(left)} GPU-minutes unpriced" if left else f"card {card} prices all")
    return "no instant has two prices; " + "; ".join(told)


def _by_card(connection: Connection, revision: Revision) -> dict[str, list[PriceBlock]]:
    known = rates.read(connection, revision.rev)
    tenure = fleet.tenure_blocks(connection, revision.rev)
    sites = fleet.sites(connection, revision.rev)
    return {card: price_blocks(tenure, known, sites, card) for card in sorted({rate.card for rate in known})}


def _priced_twice(blocks: Sequence[PriceBlock]) -> tuple[int, int] | None:
    """Gives the first slot and millisecond that two blocks share."""
    priced_until: dict[int, int] = {}
    for block in sorted(blocks, key=lambda b: b.start_ms):
        for low, high in block.slots:
            for slot in range(low, high):
                if priced_until.get(slot, block.start_ms) > block.start_ms:
                    return slot, block.start_ms
                priced_until[slot] = block.end_ms
    return None


def _area(block: PriceBlock, span: Window) -> int:
    return count(block.slots) * max(0, min(block.end_ms, span.end_ms) - max(block.start_ms, span.start_ms))
