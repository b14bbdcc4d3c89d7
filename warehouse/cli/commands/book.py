"""gpu-minutes book: derive entries from stored evidence."""

from __future__ import annotations

import click

from warehouse import clock, pipeline
from warehouse.cli import edge
from warehouse.errors import BadInput
from warehouse.model.time import Window, format_instant


@click.command("book")
@click.option("--from", "start", metavar="T", help="Derive from here (default: everything).")
@click.option("--to", "end", metavar="T", help="Derive up to here, and move the booked horizon there.")
def COMMAND(start: str | None, end: str | None) -> None:
    """Derives entries from stored evidence; deriving twice writes nothing."""
    engine = edge.open_ledger()
    with engine.connect() as connection:
        zone = edge.site_zone(connection)
    start_ms, end_ms = edge.time_option(start, "--from", zone), edge.time_option(end, "--to", zone)
    window = None
    if start_ms is not None:
        upper = clock.now_ms() if end_ms is None else end_ms
        if upper <= start_ms:
            raise BadInput("--to is not after --from")
        window = Window(start_ms, upper)
    done = pipeline.book(engine, edge.act("derive", "book"), window, end_ms)
    until = "nothing" if done.horizon_ms is None else format_instant(done.horizon_ms)
    if not done.changed:
        click.echo(f"nothing changed; booked up to {until}, revision {done.rev}")
    else:
        click.echo(
            f"booked up to {until}: {done.opened} entries written, {done.closed} superseded; revision {done.rev}"
        )
        edge.say_corrections(engine, done.rev)
