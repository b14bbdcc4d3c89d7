"""What a fleet would have lost without one incident: its evidence is masked and the ledger derived again, unwritten.

Charged costs sum to the total, since every instant is charged once. Marginal costs do not: of two faults at once each
alone takes away only what the other would not have taken anyway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from sqlalchemy import Connection

from warehouse.booking import claims_in, days, tile, within
from warehouse.errors import GpuMinutesError
from warehouse.ledger.classes import PPM2, charged, split
from warehouse.ledger.price import displayed, largest_remainder
from warehouse.ledger.tariff import PriceBlock, price_blocks
from warehouse.model.entry import Entry
from warehouse.model.fleet import TenureBlock
from warehouse.model.slots import SlotRanges, count, normalise, overlap
from warehouse.model.state import ALLOCATED, PPM, GpuTimeClass
from warehouse.model.time import Window
from warehouse.store import evidence, fleet, incidents, progress, rates
from warehouse.views.priced import total
from warehouse.views.question import Question

NOTE = "marginal: incidents' marginal costs do not sum to the total; charged costs do"

# Entries with how often they stand in the ledger as it is, less how often in the ledger without the incident: what is
# the same in both is not in it.
Difference = Counter[Entry]


def marginal(connection: Connection, question: Question, incident: Mapping[str, object]) -> dict[str, object]:
    """Gives what the loss would have been less without an incident, and what its time would have been.

    Args:
        connection: an open snapshot.
        question: the window, the revision and the card; evidence, allocations, tenure and prices are that revision's.
        incident: as `views.incident` gives it for the same question.

    Returns:
        `lost_gpu_ms` and `cost_of_loss` (a row per currency): how much less. `would_have_been`: GPU-ms per class; they
        sum to `charged_gpu_ms`, and one may be negative where other time changes too: lost work that rested on this
        incident's word alone is no loss without it. `unpriced_lost_gpu_ms`: what of the loss has no price.

    Raises:
        GpuMinutesError: where deriving again does not give what was booked at that revision.
    """
    number = int(str(incident["id"]))
    rev = progress.booked_rev(connection, question.rev)
    tenure = fleet.tenure_blocks(connection, question.rev)
    said = evidence.by_id(connection, incidents.members_at(connection, number, rev), rev)
    slots = normalise(part for e in said for part in e.slots)
    if question.slots is not None:
        slots = overlap(slots, question.slots)
    difference: Difference = Counter()
    for window in _windows([(e.start_ms, e.end_ms) for e in said], tenure, question):
        difference.update(
            _difference(connection, window, within(tenure, slots), slots, number, question.horizon_ms, rev)
        )
    own = round(Fraction(sum(_held_ppm(e) * e.gpu_ms for e in difference if e.payload.incident_id == number), PPM))
    if own != incident["gpu_ms"]:
        raise GpuMinutesError(
            f"without {incident['ref']} nothing can be told: {incident['gpu_ms']} GPU-ms are booked to it, deriving "
            f"again gives {own}; book again (gpu-minutes book), or name a revision of this version with --as-of"
        )
    blocks: list[PriceBlock] = []
    if question.card is not None:
        stored = rates.read(connection, question.rev)
        blocks = price_blocks(within(tenure, slots), stored, fleet.sites(connection, question.rev), question.card)
    return {"charged_gpu_ms": own, **_figures(difference, number, blocks), "note": NOTE}


def _windows(
    spans: Iterable[tuple[int, int | None]], tenure: Sequence[TenureBlock], question: Question
) -> list[Window]:
    """Gives the days that the spans touch, clipped to what is asked."""
    first = min(block.start_ms for block in tenure)
    asked = question.window
    whole = days(spans, first, question.horizon_ms)
    clipped = ((max(w.start_ms, asked.start_ms), min(w.end_ms, asked.end_ms)) for w in whole)
    return [Window(start, end) for start, end in clipped if start < end]


def _difference(
    connection: Connection,
    window: Window,
    tenure: Sequence[TenureBlock],
    slots: SlotRanges,
    number: int,
    horizon_ms: int,
    rev: int,
) -> Difference:
    claims = claims_in(connection, window, tenure, horizon_ms, slots, rev)
    found: Difference = Counter(tile(claims, tenure, window))
    found.subtract(tile([claim for claim in claims if claim.incident_id != number], tenure, window))
    return Counter({entry: times for entry, times in found.items() if times})


def _figures(difference: Difference, number: int, blocks: Sequence[PriceBlock]) -> dict[str, object]:
    """Sums up a difference: the loss that goes away, and the classes of the time that the incident held."""
    exact = dict.fromkeys(GpuTimeClass, 0)
    lost = 0
    priced: list[tuple[int, PriceBlock]] = []
    for entry, times in difference.items():
        classes = _classes(entry, times * entry.gpu_ms)
        if charged(classes):
            lost += charged(classes)
            areas = ((block, times * _common_gpu_ms(entry, block)) for block in blocks)
            priced += [(charged(_classes(entry, gpu_ms)), block) for block, gpu_ms in areas if gpu_ms]
        if entry.payload.incident_id != number:
            for name, part in classes.items():
                exact[name] -= part
        else:  # the part of a share that nobody holds is idle with or without the incident
            exact[GpuTimeClass.UNUSED] -= times * entry.gpu_ms * (PPM - _held_ppm(entry)) * PPM
    sizes = largest_remainder(
        [Fraction(exact[name], PPM2) for name in GpuTimeClass], round(Fraction(sum(exact.values()), PPM2))
    )
    loss = total(priced)
    return {
        "lost_gpu_ms": round(Fraction(lost, PPM2)),
        "cost_of_loss": [
            {"currency": currency, "amount": str(displayed(loss.costs[currency], currency))}
            for currency in sorted(loss.costs)
        ],
        "unpriced_lost_gpu_ms": round(Fraction(lost, PPM2) - loss.priced),
        "would_have_been": {name.value: size for name, size in zip(GpuTimeClass, sizes, strict=True)},
    }


def _held_ppm(entry: Entry) -> int:
    p = entry.payload
    return PPM if p.held_ppm is None or p.attempt_id is None or p.state not in ALLOCATED else p.held_ppm


def _classes(entry: Entry, gpu_ms: int) -> dict[GpuTimeClass, int]:
    p = entry.payload
    held_ppm = None if p.attempt_id is None else p.held_ppm
    return split(p.state, p.incident_id is not None, gpu_ms, gpu_ms * p.lost_ppm, held_ppm)


def _common_gpu_ms(entry: Entry, block: PriceBlock) -> int:
    start_ms, end_ms = max(entry.start_ms, block.start_ms), min(entry.end_ms, block.end_ms)
    if start_ms >= end_ms:
        return 0
    return count(overlap(((entry.slot_from, entry.slot_to),), block.slots)) * (end_ms - start_ms)
