"""gpu-minutes token: who may deliver to the API."""

from __future__ import annotations

import re

import click

from warehouse import clock
from warehouse.cli import edge, tables
from warehouse.errors import BadInput
from warehouse.model.time import format_instant
from warehouse.store import tokens

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_COLUMNS = ("name", "created", "created_by", "last_used", "revoked")


@click.group("token")
def COMMAND() -> None:
    """Bearer tokens of the API. Only a hash of each is stored."""


@COMMAND.command()
@click.argument("name")
def create(name: str) -> None:
    """Makes a token and prints its secret, once, alone on the last line.

    NAME says whose it is; each sender should have its own, so that one can be revoked alone.
    """
    if not _NAME.fullmatch(name):
        raise BadInput(f"'{name[:80]}' is no name of a token: 1 to 63 of a-z, 0-9, '.', '_' and '-', no sign in front")
    author = edge.act("token", "").author
    with edge.open_ledger().begin() as connection:
        secret = tokens.create(connection, name, author, clock.now_ms())
    click.echo(f"token {name} made; its secret is shown only now:", err=True)
    click.echo(secret)


@COMMAND.command("list")
@click.option("--format", "form", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True)
def list_(form: str) -> None:
    """Lists all tokens, revoked ones too; secrets are kept nowhere."""
    with edge.open_ledger().connect() as connection:
        found = tokens.listed(connection)
    rows = [(t.name, _at(t.created_ms), t.created_by, _at(t.last_used_ms), _at(t.revoked_ms)) for t in found]
    document = {"tokens": [dict(zip(_COLUMNS, (cell or None for cell in row), strict=True)) for row in rows]}
    text = tables.table(_COLUMNS, rows) if rows else "no token yet; make one: gpu-minutes token create NAME"
    edge.show(form, document, _COLUMNS, rows, text)


@COMMAND.command()
@click.argument("name")
def revoke(name: str) -> None:
    """Ends a token for ever; from the next request on it is refused."""
    with edge.open_ledger().begin() as connection:
        ended = tokens.revoke(connection, name, clock.now_ms())
    click.echo(f"token {name} is revoked" if ended else f"token {name} was revoked before")


def _at(at_ms: int | None) -> str:
    return "" if at_ms is None else format_instant(at_ms)
