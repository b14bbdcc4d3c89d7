"""Brings the schema up or down with the migrations that this version carries."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config as AlembicConfig
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Engine, text

import warehouse
from warehouse.causes import load_causes
from warehouse.errors import BadInput, GpuMinutesError

_MAY_WRITE_CAUSES = "select has_table_privilege('cause', 'insert') and current_setting('transaction_read_only') = 'off'"


def migrations_dir() -> Path:
    """Gives the migrations: inside the package when installed, beside it in a checkout."""
    package = Path(warehouse.__file__).parent
    inside = package / "_migrations"
    return inside if inside.is_dir() else package.parent / "migrations"


def current(engine: Engine) -> str | None:
    """Gives the schema's version, None for an empty database."""
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def newest() -> str:
    """Gives the version that this code needs."""
    head = ScriptDirectory(str(migrations_dir())).get_current_head()
    assert head is not None
    return head


def upgrade(engine: Engine, target: str = "head") -> None:
    """Upgrades the schema and writes the cause catalogue; safe to call at any time."""
    _run(engine, command.upgrade, target)
    if target == "head":
        write_causes(engine)


def downgrade(engine: Engine, target: str) -> None:
    """Takes the schema back to a version, or to `base`, which drops all history."""
    _run(engine, command.downgrade, target)


def ready(engine: Engine) -> None:
    """Makes sure that the schema fits this code: an empty database is filled, an older one is refused.

    Raises:
        GpuMinutesError: naming both versions and the command that mends it.
    """
    found = current(engine)
    if found is None:
        upgrade(engine)
    elif found != newest():
        raise GpuMinutesError(
            f"the database's schema is at {found}, this version needs {newest()}; run: gpu-minutes db upgrade"
        )
    else:
        write_causes(engine)


def write_causes(engine: Engine) -> None:
    """Upserts the catalogue of causes; one that left the catalogue stays, since old entries name it.

    Who may only read, by role or because the server is a replica, reads without it: the next writer brings it.
    """
    wanted = {cause.code: (cause.title, cause.rank, cause.is_symptom, cause.owner) for cause in load_causes().values()}
    with engine.begin() as connection:
        stored = {
            row.code: (row.title, row.rank, row.is_symptom, row.owner)
            for row in connection.execute(text("select code, title, rank, is_symptom, owner from cause"))
        }
        changed = [code for code, row in wanted.items() if stored.get(code) != row]
        if changed and connection.execute(text(_MAY_WRITE_CAUSES)).scalar_one():
            connection.execute(
                text(
                    "insert into cause values (:code, :title, :rank, :is_symptom, :owner) on conflict (code) do update "
                    "set title = excluded.title, rank = excluded.rank, owner = excluded.owner"
                ),
                [
                    dict(
                        zip(
                            ("code", "title", "rank", "is_symptom", "owner"),
                            (code, *wanted[code]),
                            strict=True,
                        )
                    )
                    for code in changed
                ],
            )


def _run(engine: Engine, action: object, target: str) -> None:
    assert callable(action)
    config = AlembicConfig()
    config.set_main_option("script_location", str(migrations_dir()))
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        try:
            action(config, target)
        except CommandError as exc:
            raise BadInput(f"schema version {target}: {exc}") from exc
