"""Proves the laws on the live database; each proof is a function of its own, in `warehouse/views/proofs/`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlalchemy import Connection

from warehouse.model.time import format_instant
from warehouse.store.revisions import Revision
from warehouse.views import holders, postings
from warehouse.views.proofs import chain, conservation, guards, prices, rollup, said, tiling
from warehouse.views.proofs.places import booked_span

Proving = Callable[[Connection, Revision], str | None]


@dataclass(frozen=True, slots=True)
class Law:
    """A law: its number in the design, its name, what its proof compares, and the proof: None where it holds.

    `tells` gives, where the law holds, what else the proof has to say.
    """

    number: int
    name: str
    compared: str
    broken: Proving
    tells: Callable[[Connection, Revision], str] | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """One law: whether it holds, what was compared or where it first breaks, and how long that took."""

    law: str
    number: int
    holds: bool
    said: str
    seconds: float = 0.0


LAWS = (
    Law(1, "conservation", "entries = tenure, to the millisecond, on every day", conservation.conserved),
    Law(1, "coverage", "every installed instant is booked, and no other", tiling.covered),
    Law(1, "additivity", f"by {', '.join(rollup.GROUPINGS)}: the parts are what is installed", rollup.additive),
    Law(2, "one state per instant", "no GPU-instant twice, at any revision", tiling.one_state),
    Law(4, "nothing is invented", "every entry lies inside what it says it was told by", said.nothing_invented),
    Law(4, "one charged cause", "every entry names the incident and cause of its evidence", said.one_charge),
    Law(4, "one price per instant", "no instant has two prices", prices.one_price, prices.unpriced),
    Law(
        4,
        "holders",
        "shares are those of the allocations that entries name",
        holders.shares_hold,
    ),
    Law(6, "closed months", "postings and corrections of closed months are the ledger's money", postings.ties),
    Law(6, "history is append-only", "the chain of revisions, computed again from every row", chain.unbroken),
    Law(6, "guards stand", "constraints, checks and triggers are those of the schema", guards.standing),
)


# A proof passes over whole tables: no row is looked up by itself, and what does not fit in memory goes to disk.
_WHOLE_TABLES = "set local enable_nestloop = off; set local work_mem = '64MB'; set local jit = off"


def prove(connection: Connection, revision: Revision, law: Law) -> Proof:
    """Gives the proof of one law at a revision; the laws of history read all revisions."""
    connection.exec_driver_sql(_WHOLE_TABLES)
    return timed(law.number, law.name, lambda: _tried(connection, revision, law))


def _tried(connection: Connection, revision: Revision, law: Law) -> tuple[str | None, str]:
    broken = law.broken(connection, revision)
    if broken is not None or law.tells is None:
        return broken, law.compared
    return None, law.tells(connection, revision)


def timed(number: int, name: str, proving: Callable[[], tuple[str | None, str]]) -> Proof:
    """Gives the proof of a function that tells where the law breaks, None where it holds, and what it compared."""
    begun = time.monotonic()
    broken, compared = proving()
    took = round(time.monotonic() - begun, 2)
    return Proof(name, number, broken is None, compared if broken is None else broken, took)


def check(connection: Connection, revision: Revision) -> Iterator[Proof]:
    """Yields a proof per law, at a revision."""
    for law in LAWS:
        yield prove(connection, revision, law)


def booked_until(connection: Connection, revision: Revision) -> str:
    """Gives the booked span in words."""
    span = booked_span(connection, revision)
    return "nothing booked" if span is None else f"{format_instant(span.start_ms)} to {format_instant(span.end_ms)}"
