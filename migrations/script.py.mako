"""${message}

Why:
Locks taken, on which tables of what size:
Undo:

Safety: one change per file; no backfill in the transaction that takes an exclusive lock; views are replaced whole;
EXCLUDE constraints, domains and triggers are invisible to autogenerate and written by hand; tests/store/test_schema.py
says what the database must refuse.
"""

from __future__ import annotations

from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    ${downgrades if downgrades else "pass"}
