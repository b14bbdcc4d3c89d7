"""Law 6 before the fact: what the database itself refuses still stands: constraints, triggers, domains."""

from __future__ import annotations

from sqlalchemy import Connection, text

from warehouse.store import revisions
from warehouse.store.revisions import Revision

CONSTRAINTS = {
    "ex_ledger_entry_one_state": "EXCLUDE USING gist (area WITH &&, revs WITH &&)",
    "ex_tenure_one_gpu_per_slot": "EXCLUDE USING gist (slot_area WITH &&, revs WITH &&)",
    "ex_tenure_one_slot_per_gpu": "EXCLUDE USING gist (gpu_area WITH &&, revs WITH &&)",
    "ex_rate_one_price": "EXCLUDE USING gist (line_k WITH &&, effective WITH &&, revs WITH &&)",
    "ex_period_once": "EXCLUDE USING gist (site_k WITH &&, during WITH &&)",
    "ex_place_extent_one_at_a_time": "EXCLUDE USING gist (place_k WITH &&, revs WITH &&)",
    "ex_incident_evidence_one_incident": "EXCLUDE USING gist (evidence_k WITH &&, revs WITH &&)",
    "ex_incident_cause_one_charged": "EXCLUDE USING gist (incident_k WITH &&, revs WITH &&) "
    "WHERE ((role = 'charged'::text))",
}
# What slips past an exclusion: NULLs, empty and unbounded ranges. Each domain refuses them by a check of its own.
DOMAINS = ("slot_set", "slot_span", "instant", "time_span", "open_span", "rev_span", "gpu_state")
CHECKS = (
    "ck_ledger_entry_loss",
    "ck_ledger_entry_nothing_invented",
    "ck_incident_cause_no_symptom_charged",
    "ck_revision_kind",
)
HISTORY = (*revisions.HISTORY_TABLES, "incident", "ledger_entry", "revision")

# The bits of pg_trigger.tgtype: 2 before, 8 delete, 16 update, 32 truncate.
_VERBS = {"DELETE": 8, "UPDATE": 16, "TRUNCATE": 32}

_STANDING_TRIGGERS = """
select c.relname, bit_or(t.tgtype) as verbs from pg_trigger t join pg_class c on c.oid = t.tgrelid
where c.relnamespace = current_schema()::regnamespace and not t.tgisinternal and t.tgenabled in ('O', 'A')
  and t.tgtype & 2 = 2 and t.tgqual is null group by 1
"""


def standing(connection: Connection, _: Revision) -> str | None:
    """Gives the first guard that is gone or altered."""
    return _constraint(connection) or _check(connection) or _trigger(connection)


def _constraint(connection: Connection) -> str | None:
    found = {
        row.conname: row.definition
        for row in connection.execute(
            text("select conname, pg_get_constraintdef(oid) as definition from pg_constraint where contype = 'x'")
        )
    }
    for name, definition in CONSTRAINTS.items():
        if found.get(name) != definition:
            return f"the constraint {name} is {'altered' if name in found else 'gone'}"
    return None


def _check(connection: Connection) -> str | None:
    checks = set(
        connection.execute(text("select conname from pg_constraint where contype = 'c' and contypid = 0")).scalars()
    )
    for name in CHECKS:
        if name not in checks:
            return f"the check {name} is gone"
    guarded = set(
        connection.execute(
            text(
                "select t.typname from pg_constraint c join pg_type t on t.oid = c.contypid "
                "where c.contype = 'c' and c.convalidated"
            )
        ).scalars()
    )
    for name in DOMAINS:
        if name not in guarded:
            return f"the check of the domain {name} is gone"
    return None


def _trigger(connection: Connection) -> str | None:
    standing = {row.relname: row.verbs for row in connection.execute(text(_STANDING_TRIGGERS))}
    for table in HISTORY:
        for verb, bit in _VERBS.items():
            if not standing.get(table, 0) & bit:
                return f"the guard of {table} against {verb} is gone"
    return None
