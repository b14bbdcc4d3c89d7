"""Rates and fleet together: what a card does not price, and which price nobody could pick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from warehouse.errors import Finding
from warehouse.ledger import tariff
from warehouse.model.rate import RateSpec
from warehouse.model.slots import count, overlap
from warehouse.model.time import format_instant
from warehouse.store import fleet, rates


@dataclass(frozen=True, slots=True)
class Gap:
    """GPUs of one site, model and contract without a price on a card over [start, end); None: from then on."""

    card: str
    site: str
    model: str
    contract: str | None
    gpus: int
    start_ms: int
    end_ms: int | None


def gaps(connection: Connection, cards: Sequence[str], rev: int) -> list[Gap]:
    """Gives what of the fleet stays without a price at a revision, card by card, the oldest first."""
    tenure = fleet.tenure_blocks(connection, rev)
    sites = fleet.sites(connection, rev)
    stored = rates.read(connection, rev)
    return [
        Gap(card, site.name, gap.model, gap.contract, count(mine), gap.start_ms, gap.end_ms)
        for card in cards
        for gap in tariff.unpriced(tenure, stored, sites, card)
        for site in sites
        if (mine := overlap(gap.slots, site.slots))
    ]


def idle_contracts(connection: Connection, specs: Sequence[RateSpec], rev: int) -> list[str]:
    """Gives the contracts of some rates that no GPU has had."""
    known = {block.contract for block in fleet.tenure_blocks(connection, rev)}
    return sorted({spec.contract for spec in specs if spec.contract is not None} - known)


def unclear(connection: Connection, standing: Sequence[RateSpec], fresh: Sequence[RateSpec], rev: int) -> list[Finding]:
    """Gives a finding for each fresh rate beside which a site that names no currency would have two prices at once."""
    found = {}
    told = tariff.ambiguous(fleet.tenure_blocks(connection, rev), standing, fleet.sites(connection, rev))
    for site, one, other in told:
        new, old = (other, one) if other in fresh else (one, other)
        if new in fresh:
            found[new.line, site.id] = Finding(
                str(new.line),
                f"has a price in {old.currency} at the same time, and site {site.name} names no currency that would "
                "pick one; write it on a card of its own",
            )
    return list(found.values())


def moved(
    connection: Connection, stored: Sequence[RateSpec], wanted: Sequence[RateSpec], horizon_ms: int | None, rev: int
) -> list[Finding]:
    """Gives a finding for each price of booked time that other rates would change: that takes a reason, and an act.

    Args:
        connection: the ledger's database.
        stored: the rates that stand.
        wanted: those that would stand.
        horizon_ms: how far the ledger is booked; None means not at all.
        rev: whose fleet it is about.
    """
    if horizon_ms is None:
        return []
    tenure, sites = fleet.tenure_blocks(connection, rev), fleet.sites(connection, rev)
    findings = {}
    for card in dict.fromkeys(rate.card for rate in stored):
        before, after = (tariff.price_blocks(tenure, rates, sites, card) for rates in (stored, wanted))
        for move in tariff.moved(before, after, horizon_ms):
            now = "no price" if move.new is None else f"{_price(move.new)} {move.new.currency}"
            where = f"card {card}, {move.old.model}"
            findings[where, now] = Finding(
                where,
                f"{now} in place of {_price(move.old)} {move.old.currency} from {format_instant(move.start_ms)} would "
                "change what is booked; if that is meant: gpu-minutes rates reprice FILE --reason TEXT",
            )
    return list(findings.values())


def _price(block: tariff.PriceBlock) -> str:
    return f"{block.per_gpu_hour.normalize():f}"
