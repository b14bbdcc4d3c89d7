"""What commands share at the edge: opening the ledger, reading times, saying what was done."""

from __future__ import annotations

import getpass
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import click
from sqlalchemy import Connection, Engine

from warehouse import clock, config, views
from warehouse.cli import tables
from warehouse.errors import BadInput
from warehouse.model.time import parse_instant
from warehouse.pipeline import Act
from warehouse.store import connect, fleet, migrate, revisions
from warehouse.store.revisions import Revision

REVISION = click.IntRange(min=1, max=2**62)

F = TypeVar("F", bound=Callable[..., Any])


def open_ledger() -> Engine:
    """Gives an engine on a ledger whose schema fits this code."""
    engine = connect.open_engine(config.load())
    migrate.ready(engine)
    return engine


def act(kind: str, reason: str) -> Act:
    """Gives the head of a revision: the user of this shell, now."""
    try:
        author = getpass.getuser()
    except (OSError, KeyError):
        author = "unknown"
    return Act(kind, author, reason, clock.now_ms())


def site_zone(connection: Connection, rev: int | None = None) -> ZoneInfo:
    """Gives the zone in which a date is a midnight: the sites' own where they agree, else UTC."""
    zones = fleet.zones(connection, rev)
    return ZoneInfo(zones[0] if len(zones) == 1 else "UTC")


def time_option(text: str | None, flag: str, zone: ZoneInfo) -> int | None:
    """Reads a time given on the command line.

    Raises:
        BadInput: naming the flag.
    """
    if text is None:
        return None
    try:
        return parse_instant(text, zone)
    except ValueError as exc:
        raise BadInput(f"{flag}: {exc}") from exc


def incident_id(text: str) -> int:
    """Reads an incident's number, with or without INC- before it.

    Raises:
        BadInput: for anything else.
    """
    digits = text.upper().removeprefix("INC-")
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 18:
        raise BadInput(f"'{text[:40]}' is no incident number such as 12 or INC-12")
    return int(digits)


def say_corrections(engine: Engine, rev: int) -> None:
    """Says what an act changed in closed months, a line each; nothing where it changed none."""
    with engine.connect() as connection:
        found = views.corrections(connection, rev)
    for row in found:
        click.echo(
            f"closed month {row['charge']} of site {row['site']}, card {row['card']}: {row['postings']} correction "
            f"rows posted in {row['billing']}: worth {_signed(row)}, cost of loss {_signed(row, 'cost_of_loss')}"
        )


def _signed(row: dict[str, object], figure: str = "worth") -> str:
    return f"{Decimal(str(row[figure])):+,} {row['currency']}"


@contextmanager
def reading(as_of: int | None) -> Iterator[tuple[Connection, Revision]]:
    """Gives a read-only snapshot of the ledger and the revision to read.

    Raises:
        BadInput: when there is nothing yet, or no such revision.
    """
    engine = open_ledger()
    with engine.connect().execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True) as connection:
        revision = revisions.latest(connection, as_of)
        if revision is None and as_of is not None:
            newest = revisions.latest(connection)
            raise BadInput(f"--as-of: there is no revision {as_of}; the newest is {newest.rev if newest else 'none'}")
        if revision is None:
            raise BadInput("the ledger is empty; begin with: gpu-minutes fleet load FILE, or gpu-minutes demo")
        yield connection, revision


def reading_options(command: F) -> F:
    """Adds what every reading command has: --format and --as-of."""
    command = click.option(
        "--as-of", type=REVISION, metavar="REVISION", help="Read as the ledger stood at a revision."
    )(command)
    return click.option(
        "--format", "form", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True
    )(command)


def show(form: str, document: object, columns: Sequence[str], rows: Sequence[Sequence[object]], table: str) -> None:
    """Prints one answer as a table for people, JSON for programs or CSV for spreadsheets."""
    if form == "json":
        click.echo(json.dumps(document, indent=1, ensure_ascii=False))
    elif form == "csv":
        click.echo(tables.csv_text(columns, rows), nl=False)
    else:
        click.echo(table)
