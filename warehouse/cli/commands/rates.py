"""gpu-minutes rates: what a GPU-hour costs."""

from __future__ import annotations

import click

from warehouse import pipeline, views
from warehouse.cli import edge, tables
from warehouse.evidence.rates_csv import OPTIONAL, REQUIRED, read_rates


@click.group("rates")
def COMMAND() -> None:
    """What a GPU-hour costs: load a rate card, show the rates."""


@COMMAND.command()
@click.argument("file")
def load(file: str) -> None:
    """Loads FILE (rates.csv); loading it twice changes nothing."""
    engine = edge.open_ledger()
    with engine.connect() as connection:
        zone = edge.site_zone(connection)
    done = pipeline.load_rates(engine, read_rates(file, zone), edge.act("rates", f"rates load {file}"))
    if not done.changed:
        click.echo(f"{done.rates_repeated} rates, all of them already in the ledger; nothing changed")
    else:
        click.echo(f"{done.rates_added} rates added, {done.rates_repeated} already there; revision {done.rev}")


@COMMAND.command()
@edge.reading_options
def show(form: str, as_of: int | None) -> None:
    """Shows every rate; the CSV can be loaded again."""
    with edge.reading(as_of) as (connection, revision):
        rates = views.rates(connection, revision.rev)
    columns = [*REQUIRED, *OPTIONAL]
    rows = [[rate[column] for column in columns] for rate in rates]
    text = tables.table(columns, [["" if cell is None else cell for cell in row] for row in rows], right=[3])
    edge.show(form, {"revision": revision.rev, "rates": rates}, columns, rows, text)
