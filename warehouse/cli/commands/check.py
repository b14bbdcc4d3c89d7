"""gpu-minutes check: prove the laws on the live database."""

from __future__ import annotations

from dataclasses import asdict

import click

from warehouse import booking
from warehouse.cli import edge, tables
from warehouse.store import progress
from warehouse.views import check


@click.command("check")
@edge.reading_options
def COMMAND(form: str, as_of: int | None) -> int:
    """Proves the laws on the stored rows: conservation, one state per instant, nothing invented, one charged cause,
    append-only history, and that deriving some days again changes nothing; exit 1 where one is broken.
    """
    with edge.reading(as_of) as (connection, revision):
        proofs = check.check(connection, revision)
        if as_of is None and progress.pending_since(connection) is None:
            proofs.append(_same_again(*booking.differences(connection, revision)))
        proofs.sort(key=lambda proof: proof.number)
        booked = check.booked_until(connection, revision)
    columns = ["law", "name", "result", "what was compared, or where it breaks"]
    rows = [[p.number, p.law, "holds" if p.holds else "BROKEN", p.said] for p in proofs]
    broken = [p for p in proofs if not p.holds]
    document = {
        "revision": revision.rev,
        "booked": booked,
        "holds": not broken,
        "laws": [asdict(proof) for proof in proofs],
    }
    text = tables.table(columns, rows) + f"\nrevision {revision.rev}, {booked}"
    edge.show(form, document, columns, rows, text)
    for proof in broken:
        click.echo(f"gpu-minutes: law {proof.number} is broken, {proof.law}: {proof.said}", err=True)
    return 1 if broken else 0


def _same_again(days: int, differs: str | None) -> check.Proof:
    said = f"{days} days derived again give what stands" if differs is None else f"the day of {differs} differs"
    return check.Proof("determinism", 3, differs is None, said)
