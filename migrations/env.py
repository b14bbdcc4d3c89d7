"""Runs migrations on the connection of the caller, all in one transaction: the schema is whole, or as it was."""

from __future__ import annotations

from alembic import context
from sqlalchemy import text

# Any fixed number will do; it only keeps two upgraders apart.
UPGRADE_LOCK = 4_777_001

connection = context.config.attributes["connection"]
connection.execute(text("set lock_timeout = '10s'"))
connection.execute(text("select pg_advisory_lock(:lock)"), {"lock": UPGRADE_LOCK})
connection.commit()
try:
    context.configure(connection=connection, transaction_per_migration=False)
    with context.begin_transaction():
        context.run_migrations()
finally:
    connection.rollback()
    connection.execute(text("select pg_advisory_unlock(:lock)"), {"lock": UPGRADE_LOCK})
    connection.execute(text("reset lock_timeout"))
    connection.commit()
