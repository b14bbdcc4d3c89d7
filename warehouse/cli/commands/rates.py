"""gpu-minutes rates: what a GPU-hour costs."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import click
from sqlalchemy import Connection, Engine

from warehouse import pipeline, prices, views
from warehouse.acts import reprice as acts
from warehouse.cli import edge, tables
from warehouse.errors import BadInput, shown
from warehouse.evidence import cells
from warehouse.evidence.rates_csv import OPTIONAL, REQUIRED, read_rates
from warehouse.ledger.price import displayed
from warehouse.ledger.repricing import PriceChange
from warehouse.model.rate import RateSpec
from warehouse.model.time import format_instant
from warehouse.report.figures import minutes


@click.group("rates")
def COMMAND() -> None:
    """What a GPU-hour costs: load a rate card, show the rates, change a price backwards."""


@COMMAND.command()
@click.argument("file")
def load(file: str) -> None:
    """Loads FILE (rates.csv); loading it twice changes nothing.

    Booked time that has a price keeps it: to change that, see `rates reprice`. Says afterwards what of the fleet the
    cards of the file have no price for.
    """
    engine = edge.open_ledger()
    specs = _read(engine, file)
    done = pipeline.load_rates(engine, specs, edge.act("rates", f"rates load {file}"))
    if not done.changed:
        click.echo(f"{done.rates_repeated} rates, all of them already in the ledger; nothing changed")
    else:
        click.echo(f"{done.rates_added} rates added, {done.rates_repeated} already there; revision {done.rev}")
    with engine.connect() as connection:
        _say_what_is_missing(connection, specs, done.rev)


@COMMAND.command()
@click.argument("file")
@click.option("--reason", required=True, metavar="TEXT", help="Why; it stays with the revision.")
def reprice(file: str, reason: str) -> None:
    """Puts the rates of FILE (rates.csv) over the stored ones, backwards too.

    Each rate of the file holds over the whole of its span, whatever was stored there; what was stored before and after
    stays. Entries stay as they are, and a report of an earlier revision keeps its prices.
    """
    engine = edge.open_ledger()
    try:
        why = cells.short_text(reason)
    except ValueError as exc:
        raise BadInput(f"--reason: {exc}") from exc
    specs = _read(engine, file)
    found = acts.reprice(engine, specs, edge.act("reprice", why))
    if not found.done.changed:
        click.echo(f"{len(specs)} rates, all of them say what stands already; nothing changed")
    for change in found.changes:
        click.echo(_change(change))
    for effect in found.effects:
        for line in _effect(effect):
            click.echo(line)
    if found.done.changed:
        click.echo(f"revision {found.done.rev}; no entry changed, and revision {found.done.rev - 1} keeps its prices")
        edge.say_corrections(engine, found.done.rev)
    with engine.connect() as connection:
        _say_what_is_missing(connection, specs, found.done.rev)


@COMMAND.command()
@click.option("--card", metavar="NAME", help="Only this rate card.")
@edge.reading_options
def show(card: str | None, form: str, as_of: int | None) -> None:
    """Shows every rate; the CSV can be loaded again."""
    with edge.reading(as_of) as (connection, revision):
        rates = views.rates(connection, revision.rev, card)
    columns = [*REQUIRED, *OPTIONAL]
    rows = [[rate[column] for column in columns] for rate in rates]
    text = tables.table(columns, [["" if cell is None else cell for cell in row] for row in rows], right=[3])
    edge.show(form, {"revision": revision.rev, "rates": rates}, columns, rows, text)


def _read(engine: Engine, file: str) -> list[RateSpec]:
    with engine.connect() as connection:
        zone = edge.site_zone(connection)
    return read_rates(file, zone)


def _say_what_is_missing(connection: Connection, specs: Sequence[RateSpec], rev: int) -> None:
    cards = list(dict.fromkeys(spec.card for spec in specs))
    several = len(views.sites(connection, rev)) > 1
    lines = [
        f"card {gap.card}: no price for {gap.gpus} GPUs{f' of site {gap.site}' if several else ''}, {gap.model}"
        + ("" if gap.contract is None else f", contract {gap.contract}")
        + _span(gap.start_ms, gap.end_ms)
        for gap in prices.gaps(connection, cards, rev)
    ]
    lines += [f"contract {name}: no GPU has it" for name in prices.idle_contracts(connection, specs, rev)]
    for line in shown(lines, "the time that they speak of is unpriced"):
        click.echo(line)


def _span(start_ms: int, end_ms: int | None) -> str:
    return f", from {format_instant(start_ms)}" + ("" if end_ms is None else f" until {format_instant(end_ms)}")


def _change(change: PriceChange) -> str:
    old, new = change.old, change.new
    was = "no price" if old is None else f"{old.per_gpu_hour.normalize():f}"
    now = f"{new.per_gpu_hour.normalize():f}"
    if old is not None and old.basis != new.basis:
        was += f" ({old.basis or 'no basis'})"
        now += f" ({new.basis or 'no basis'})"
    return f"{new.line}: {was} -> {now}{_span(change.start_ms, change.end_ms)}"


def _effect(effect: acts.Effect) -> list[str]:
    """Gives a line per currency, and one where other time has a price now."""
    lines = []
    for currency in sorted(effect.before.costs.keys() | effect.after.costs.keys()):
        before, after = (loss.costs.get(currency, Fraction(0)) for loss in (effect.before, effect.after))
        shown_before, shown_after = displayed(before, currency), displayed(after, currency)
        lines.append(
            f"card {effect.card}, cost of all booked loss: {shown_before:,} -> {shown_after:,} {currency} "
            f"({shown_after - shown_before:+,})"
        )
    if not lines:
        lines.append(f"card {effect.card}, cost of all booked loss: none has a price")
    if effect.before.priced != effect.after.priced:
        was, now = minutes(round(effect.before.priced)), minutes(round(effect.after.priced))
        lines.append(f"card {effect.card}, lost GPU-minutes with a price: {was} -> {now}")
    return lines
