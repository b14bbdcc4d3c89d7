"""Law 12, schema: exclusions, domains and guards read literally as they were designed."""

from __future__ import annotations

from sqlalchemy import Engine, text

from warehouse.views.proofs.guards import CONSTRAINTS, DOMAINS, HISTORY

DOMAIN_CHECKS = {
    "slot_set": ("int4multirange", ["isempty", "lower_inf", "upper_inf", "lower(VALUE) >= 0"]),
    "slot_span": ("int4range", ["isempty", "lower_inf", "upper_inf", "lower(VALUE) >= 0"]),
    "instant": ("timestamp with time zone", ["isfinite(VALUE)", "(3)"]),
    "time_span": ("tstzrange", ["isempty", "lower_inc", "upper_inc", "lower_inf", "upper_inf", "isfinite", "(3)"]),
    "open_span": ("tstzrange", ["isempty", "lower_inc", "upper_inc", "lower_inf", "isfinite", "(3)"]),
    "rev_span": ("int8range", ["isempty", "lower_inf"]),
    "gpu_state": ("text", ["'productive'", "'unknown'"]),
}


def test_law_12_exclusions(engine: Engine) -> None:
    with engine.connect() as connection:
        found = connection.execute(
            text("select conname, pg_get_constraintdef(oid), convalidated from pg_constraint where contype = 'x'")
        ).all()
    assert {name: definition for name, definition, _ in found} == CONSTRAINTS
    assert all(validated for _, _, validated in found)


def test_law_12_domains(engine: Engine) -> None:
    with engine.connect() as connection:
        found = {
            row.typname: (row.base, row.said)
            for row in connection.execute(
                text(
                    "select t.typname, format_type(t.typbasetype, null) as base, pg_get_constraintdef(c.oid) as said "
                    "from pg_type t join pg_constraint c on c.contypid = t.oid where c.convalidated "
                    "and t.typnamespace = 'public'::regnamespace"
                )
            )
        }
    assert found.keys() == DOMAIN_CHECKS.keys() == set(DOMAINS)
    for name, (base, words) in DOMAIN_CHECKS.items():
        assert found[name][0] == base
        assert [word for word in words if word not in found[name][1]] == []


def test_law_12_every_range_of_history_is_a_strict_domain(engine: Engine) -> None:
    """A bare range column could be empty or unbounded and slip past an exclusion; generated ones follow from others."""
    with engine.connect() as connection:
        bare = connection.execute(
            text(
                "select c.relname || '.' || a.attname from pg_attribute a join pg_class c on c.oid = a.attrelid "
                "join pg_type t on t.oid = a.atttypid where c.relnamespace = 'public'::regnamespace "
                "and c.relkind = 'r' and t.typtype in ('r', 'm') and a.attgenerated = '' and a.attnum > 0"
            )
        ).all()
    assert bare == []


def test_law_12_every_table_that_has_revisions_is_history(engine: Engine) -> None:
    """A table with `revs` is in the chain's list and under guard; what is not history is named here."""
    with engine.connect() as connection:
        tables = set(
            connection.execute(
                text("select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'")
            ).scalars()
        )
    inbox = {"alert_delivery", "alert_repeat", "alert_event", "alert_episode", "alert_dead_letter", "api_token"}
    assert tables - set(HISTORY) - inbox == {"alembic_version", "cause", "source_progress"}
