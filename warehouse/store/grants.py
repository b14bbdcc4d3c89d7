"""What a role of the application may do: add rows and close them, or read; never delete, truncate or rewrite.

The guards of the tables refuse the owner too; a role without the rights cannot even take the guards away.
"""

from __future__ import annotations

from psycopg import sql
from sqlalchemy import Connection, Engine, text

from warehouse.errors import BadInput
from warehouse.store.rows import driver

# What may be updated besides `revs` of tables that close. `cause` is the program's own catalogue, and
# `source_progress` a note to ourselves: neither is history.
_UPDATED = {
    "incident": ("merged_into", "merged_rev", "revs"),
    "cause": ("title", "rank", "owner"),
    "source_progress": ("observed_until",),
    # What alerts come to is derived from their events, and marked; which alert it is stays.
    "alert_episode": (
        "ends_at", "state", "head_at", "proven_at", "skewed", "superseded", "truncated", "stale_sibling", "silenced",
        "inhibited", "muted", "listed_at", "version", "processed",
    ),
    "api_token": ("last_used_at", "revoked_at"),
}  # fmt: skip
# What a reader sees of a table that holds something that is not theirs.
_SEEN = {"api_token": ("id", "name", "created_at", "created_by", "last_used_at", "revoked_at")}
# The schema's version is the migrations' own.
_ONLY_READ = ("alembic_version",)

_TABLES = """
select c.relname as name, exists (
    select 1 from pg_trigger t where t.tgrelid = c.oid and t.tgname = 'only_closes') as closes,
  c.relkind = 'v' as is_view
from pg_class c where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p', 'v') order by 1
"""


def grant(engine: Engine, role: str, *, reader: bool = False) -> int:
    """Gives a role what the application needs on every table of the ledger, and takes away what it had beyond that.

    Returns:
        On how many tables.

    Raises:
        BadInput: when there is no such role, or when it owns the ledger.
    """
    with engine.begin() as connection:
        _refuse(connection, role)
        tables = connection.execute(text(_TABLES)).all()
        named = sql.Identifier(role)
        schema = sql.Identifier(connection.execute(text("select current_schema()")).scalar_one())
        with driver(connection).cursor() as cursor:
            cursor.execute(sql.SQL("grant usage on schema {} to {}").format(schema, named))
            cursor.execute(sql.SQL("revoke all on all sequences in schema {} from {}").format(schema, named))
            for table in tables:
                to = {"table": sql.Identifier(table.name), "role": named}
                cursor.execute(sql.SQL("revoke all on {table} from {role}").format(**to))
                seen = _SEEN.get(table.name, ()) if reader else ()
                part = sql.SQL("({})").format(sql.SQL(", ").join(map(sql.Identifier, seen))) if seen else sql.SQL("")
                cursor.execute(sql.SQL("grant select {part} on {table} to {role}").format(part=part, **to))
                if reader or table.is_view or table.name in _ONLY_READ:
                    continue
                cursor.execute(sql.SQL("grant insert on {table} to {role}").format(**to))
                columns = ("revs",) if table.closes else _UPDATED.get(table.name, ())
                if columns:
                    listed = sql.SQL(", ").join(map(sql.Identifier, columns))
                    statement = sql.SQL("grant update ({columns}) on {table} to {role}")
                    cursor.execute(statement.format(columns=listed, **to))
            if not reader:
                cursor.execute(sql.SQL("grant usage on all sequences in schema {} to {}").format(schema, named))
        return sum(not table.is_view for table in tables)


def _refuse(connection: Connection, role: str) -> None:
    known = connection.execute(text("select true from pg_roles where rolname = :role"), {"role": role}).first()
    if known is None:
        raise BadInput(f"there is no role '{role[:80]}' in this database; create it first: create role NAME login")
    owns = connection.execute(
        text(
            "select pg_has_role(:role, c.relowner, 'member') from pg_class c "
            "where c.relname = 'revision' and c.relnamespace = current_schema()::regnamespace"
        ),
        {"role": role},
    ).scalar_one()
    if owns:
        raise BadInput(
            f"'{role}' owns the ledger or may act as its owner, and could take every guard away; "
            "give the application a role of its own"
        )
