"""gpu-minutes db: the schema, and the embedded server."""

from __future__ import annotations

import click

from warehouse import config
from warehouse.errors import BadInput
from warehouse.store import connect, grants, migrate


@click.group("db")
def COMMAND() -> None:
    """The database: schema up or down, the embedded server's end."""


@COMMAND.command()
def upgrade() -> None:
    """Brings the schema to the version that this program needs."""
    engine = connect.open_engine(config.load())
    before = migrate.current(engine)
    migrate.upgrade(engine)
    after = migrate.current(engine)
    click.echo(f"schema at {after}, unchanged" if before == after else f"schema at {after}, was {before or 'empty'}")


@COMMAND.command()
def current() -> None:
    """Says which version the schema is at, and which one this program needs."""
    engine = connect.open_engine(config.load())
    click.echo(f"schema at {migrate.current(engine) or 'empty'}, this program needs {migrate.newest()}")


@COMMAND.command()
@click.argument("version")
@click.option("--yes", is_flag=True, help="Really drop what the older schema cannot hold.")
def downgrade(version: str, yes: bool) -> None:
    """Takes the schema back to VERSION; `base` drops everything."""
    if not yes:
        raise click.UsageError("downgrade loses history for ever; add --yes to do it")
    engine = connect.open_engine(config.load())
    migrate.downgrade(engine, version)
    click.echo(f"schema at {migrate.current(engine) or 'empty'}")


@COMMAND.command()
@click.argument("role")
@click.option("--reader", is_flag=True, help="Only what reading commands, reports and the dashboard need.")
def grant(role: str, reader: bool) -> None:
    """Gives a PostgreSQL role exactly what the application needs; run it again after an upgrade.

    A writer may add rows and close them, and never delete, truncate or rewrite one. The role must exist:
    `create role NAME login`. It must not own the ledger, since an owner can take every guard away.
    """
    engine = connect.open_engine(config.load())
    if migrate.current(engine) != migrate.newest():
        raise BadInput("the schema is not the one that this program needs; run: gpu-minutes db upgrade")
    tables = grants.grant(engine, role, reader=reader)
    click.echo(f"{role} may {'read' if reader else 'read, add to and close'} the ledger's {tables} tables")


@COMMAND.command()
def stop() -> None:
    """Ends the embedded server; the next command starts it again."""
    stopped = connect.stop_embedded(config.load())
    click.echo("the embedded database is stopped" if stopped else "no embedded database is running")
