"""gpu-minutes check: prove the laws on the live database."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict

import click
from sqlalchemy import Connection

from warehouse import booking
from warehouse.cli import edge, tables
from warehouse.store import progress
from warehouse.store.revisions import Revision
from warehouse.views import check
from warehouse.views.check import Proof


@click.command("check")
@edge.reading_options
def COMMAND(form: str, as_of: int | None) -> int:
    """Proves the laws on the stored rows and names the first place where one breaks; exit 1 where one does.

    Conservation and coverage of installed time, additivity of every grouping, one state per instant, determinism
    (some days derived again), nothing invented, one charged cause, one price per instant, the chain of history, and
    that the database's own guards stand. Of a large ledger this takes minutes; a terminal shows how far it is.
    """
    with edge.reading(as_of) as (connection, revision):
        proofs = sorted(_proofs(connection, revision, as_of), key=lambda proof: proof.number)
        booked = check.booked_until(connection, revision)
    columns = ["law", "name", "result", "what was compared, or where it breaks"]
    rows = [[p.number, p.law, "holds" if p.holds else "BROKEN", p.said] for p in proofs]
    broken = [p for p in proofs if not p.holds]
    document = {
        "revision": revision.rev,
        "booked": booked,
        "holds": not broken,
        # Without its seconds: an old revision gives the same bytes for ever.
        "laws": [{key: value for key, value in asdict(proof).items() if key != "seconds"} for proof in proofs],
    }
    text = tables.table(columns, rows) + f"\nrevision {revision.rev}, {booked}"
    edge.show(form, document, columns, rows, text)
    for proof in broken:
        click.echo(f"gpu-minutes: law {proof.number} is broken, {proof.law}: {proof.said}", err=True)
    return 1 if broken else 0


def _proofs(connection: Connection, revision: Revision, as_of: int | None) -> Iterator[Proof]:
    for law in check.LAWS:
        _show(f"proving law {law.number}, {law.name}")
        yield check.prove(connection, revision, law)
    # What is stored now says nothing of an older tiling, and time that waits to be booked differs rightly.
    if as_of is None and progress.pending_since(connection) is None:
        _show("proving law 3, determinism")
        yield check.timed(3, "determinism", lambda: _same_again(*booking.differences(connection, revision)))
    _show("")


def _same_again(days: int, differs: str | None) -> tuple[str | None, str]:
    compared = f"{days} days derived again give what stands"
    return None if differs is None else f"the day of {differs} differs from what is derived now", compared


def _show(what: str) -> None:
    """Says on a terminal what is being done, in place of what it said before."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{what}", nl=False, err=True)
