"""What a reader asks: which window, which revision, which price card; settled once, before any figure is read."""

from __future__ import annotations

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from warehouse.errors import BadInput
from warehouse.model.time import Window, from_datetime
from warehouse.store import fleet, progress, rates
from warehouse.store.revisions import Revision


@dataclass(frozen=True, slots=True)
class Question:
    """A window of the ledger at a revision, priced by one card; `deferred`: some of it waits to be booked.

    `card` and `currency` are None where no price is stored: then everything is unpriced. `horizon_ms` is how far
    that revision is booked; time behind it is unknown and the answer provisional.
    """

    window: Window
    rev: int
    horizon_ms: int
    card: str | None
    currency: str | None
    zone: ZoneInfo
    engine: str
    deferred: bool = False

    @property
    def to_horizon(self) -> bool:
        """Tells whether the window ends where the booking does."""
        return self.window.end_ms == self.horizon_ms

    @property
    def provisional(self) -> bool:
        """Tells whether the window passes what is booked."""
        return self.window.end_ms > self.horizon_ms or self.deferred


def ask(
    connection: Connection,
    revision: Revision,
    start_ms: int | None,
    end_ms: int | None,
    card: str | None = None,
) -> Question:
    """Settles a question; without times it is everything from the first commissioning to what is booked.

    Where nothing is booked yet it reaches to when the revision was written: installed time of which nothing is known.

    Raises:
        BadInput: when the window is empty, nothing is booked, or the card is unknown or needs naming.
    """
    blocks = fleet.tenure_blocks(connection, revision.rev)
    if not blocks:
        raise BadInput("the ledger has no fleet; load one: gpu-minutes fleet load FILE")
    first = min(block.start_ms for block in blocks)
    ends = [block.end_ms for block in blocks]
    horizon = first if revision.horizon_ms is None else revision.horizon_ms
    last = horizon if None in ends else min(horizon, max(end for end in ends if end is not None))
    start = first if start_ms is None else start_ms
    if last <= first:
        last = max(first, from_datetime(revision.recorded_at))
    end = last if end_ms is None else end_ms
    if end <= start:
        what = "--to is not after --from" if end_ms is not None else "nothing is booked in this window yet"
        raise BadInput(f"{what}; give a later --to")
    name, currency = _card(connection, revision.rev, card)
    zones = fleet.zones(connection, revision.rev)
    zone = ZoneInfo(zones[0] if len(zones) == 1 else "UTC")
    window = Window(start, end)
    waiting = progress.deferred(connection, window, revision.rev)
    return Question(window, revision.rev, horizon, name, currency, zone, revision.engine, waiting)


def _card(connection: Connection, rev: int, wanted: str | None) -> tuple[str | None, str | None]:
    """Gives the card to price by: the one named, else `list`, else the only one."""
    currencies = {rate.card: rate.currency for rate in rates.read(connection, rev)}
    if wanted is not None:
        if wanted not in currencies:
            raise BadInput(f"--card: there is no rate card '{wanted}'; known are {', '.join(currencies) or 'none'}")
        return wanted, currencies[wanted]
    if "list" in currencies:
        return "list", currencies["list"]
    if len(currencies) > 1:
        raise BadInput(f"there are several rate cards; name one with --card: {', '.join(sorted(currencies))}")
    return next(iter(currencies.items()), (None, None))
