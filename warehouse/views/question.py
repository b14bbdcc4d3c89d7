"""What a reader asks: which window, site, revision and price card; settled once, before any figure is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from warehouse.errors import BadInput
from warehouse.ledger.tariff import PriceBlock, price_blocks
from warehouse.model.fleet import Site, TenureBlock
from warehouse.model.rate import RateSpec
from warehouse.model.slots import SlotRanges, overlap
from warehouse.model.time import Window, from_datetime
from warehouse.store import fleet, progress, rates
from warehouse.store.revisions import Revision
from warehouse.views import where


@dataclass(frozen=True, slots=True)
class Question:
    """A window of the ledger at a revision, priced by one card; `deferred`: some of it waits to be booked.

    `card` is None where no price is stored: then everything is unpriced. `horizon_ms` is how far that revision is
    booked; time behind it is unknown and the answer provisional. `slots` are those of the one site asked about, None
    for all of the fleet; `tenure` and `prices` are what is installed there and what it costs. `currencies` are those
    that price something of the window; amounts of two of them are never added.
    """

    window: Window
    rev: int
    horizon_ms: int
    card: str | None
    currencies: tuple[str, ...]
    zone: ZoneInfo
    engine: str
    deferred: bool = False
    site: str | None = None
    slots: SlotRanges | None = None
    tenure: tuple[TenureBlock, ...] = ()
    prices: tuple[PriceBlock, ...] = ()
    rates: tuple[RateSpec, ...] = ()

    @property
    def currency(self) -> str | None:
        """Gives the currency of all amounts; None where nothing has a price, or amounts are in several currencies."""
        return self.currencies[0] if len(self.currencies) == 1 else None

    @property
    def to_horizon(self) -> bool:
        """Tells whether the window ends where the booking does."""
        return self.window.end_ms == self.horizon_ms

    @property
    def provisional(self) -> bool:
        """Tells whether the window passes what is booked."""
        return self.window.end_ms > self.horizon_ms or self.deferred


def reading_zone(connection: Connection, rev: int, site: str | None = None) -> ZoneInfo:
    """Gives the zone in which a date is a midnight: the site's own, or that of all sites where they agree, else UTC.

    Raises:
        BadInput: for an unknown site.
    """
    return _zone(fleet.sites(connection, rev) if site is None else [where.site(connection, rev, site)])


def _zone(sites: Sequence[Site]) -> ZoneInfo:
    zones = {site.timezone for site in sites}
    return ZoneInfo(zones.pop() if len(zones) == 1 else "UTC")


def ask(
    connection: Connection,
    revision: Revision,
    start_ms: int | None,
    end_ms: int | None,
    card: str | None = None,
    site: str | None = None,
) -> Question:
    """Settles a question; without times it is everything from the first commissioning to what is booked.

    Where nothing is booked yet it reaches to when the revision was written: installed time of which nothing is known.

    Raises:
        BadInput: when the window is empty, nothing is booked, or the site or card is unknown or needs naming.
    """
    sites = fleet.sites(connection, revision.rev)
    chosen = None if site is None else where.site(connection, revision.rev, site)
    tenure = _installed(connection, revision.rev, chosen)
    if not tenure:
        raise BadInput("the ledger has no fleet; load one: gpu-minutes fleet load FILE")
    horizon, window = _window(revision, tenure, start_ms, end_ms)
    stored = rates.read(connection, revision.rev)
    name = _card(stored, card)
    here = sites if chosen is None else [chosen]
    prices = () if name is None else tuple(price_blocks(tenure, stored, here, name))
    return Question(
        window, revision.rev, horizon, name, _currencies(prices, window, stored, name, here),
        _zone(here), revision.engine,
        progress.deferred(connection, window, revision.rev), site, None if chosen is None else chosen.slots,
        tenure, prices, tuple(stored),
    )  # fmt: skip


def _installed(connection: Connection, rev: int, chosen: Site | None) -> tuple[TenureBlock, ...]:
    blocks = fleet.tenure_blocks(connection, rev)
    if chosen is None:
        return tuple(blocks)
    here = (replace(block, slots=overlap(block.slots, chosen.slots)) for block in blocks)
    return tuple(block for block in here if block.slots)


def _window(
    revision: Revision, tenure: Sequence[TenureBlock], start_ms: int | None, end_ms: int | None
) -> tuple[int, Window]:
    """Gives how far is booked, and the window asked for."""
    first = min(block.start_ms for block in tenure)
    ends = [block.end_ms for block in tenure]
    horizon = first if revision.horizon_ms is None else revision.horizon_ms
    last = horizon if None in ends else min(horizon, max(end for end in ends if end is not None))
    start = first if start_ms is None else start_ms
    if last <= first:
        last = max(first, from_datetime(revision.recorded_at))
    end = last if end_ms is None else end_ms
    if end <= start:
        what = "--to is not after --from" if end_ms is not None else "nothing is booked in this window yet"
        raise BadInput(f"{what}; give a later --to")
    return horizon, Window(start, end)


def _card(stored: Sequence[RateSpec], wanted: str | None) -> str | None:
    """Gives the card to price by: the one named, else `list`, else the only one."""
    cards = dict.fromkeys(rate.card for rate in stored)
    if wanted is not None:
        if wanted not in cards:
            raise BadInput(f"--card: there is no rate card '{wanted}'; known are {', '.join(cards) or 'none'}")
        return wanted
    if "list" in cards:
        return "list"
    if len(cards) > 1:
        raise BadInput(f"there are several rate cards; name one with --card: {', '.join(sorted(cards))}")
    return next(iter(cards), None)


def _currencies(
    prices: Sequence[PriceBlock], window: Window, stored: Sequence[RateSpec], card: str | None, sites: Sequence[Site]
) -> tuple[str, ...]:
    """Gives the currencies that price something of the window; where none does, the only one that the card has."""
    found = {p.currency for p in prices if p.start_ms < window.end_ms and p.end_ms > window.start_ms}
    if not found:
        own = {site.currency for site in sites}
        found = {rate.currency for rate in stored if rate.card == card and (None in own or rate.currency in own)}
        found = found if len(found) == 1 else set()
    return tuple(sorted(found))
