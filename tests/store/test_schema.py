"""What the database itself refuses, on the embedded server and on the distribution's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import DBAPIError

from warehouse.store import migrate
from warehouse.views.proofs.guards import CONSTRAINTS


def engine_of(url: str) -> Engine:
    return create_engine(url.replace("postgresql:", "postgresql+psycopg:"))


@pytest.fixture
def connection(any_database_url: str) -> Iterator[Connection]:
    engine = engine_of(any_database_url)
    migrate.upgrade(engine)
    with engine.connect() as opened:
        yield opened
    engine.dispose()


def entry(**cells: str) -> str:
    values = {
        "slots": "'[0,8)'", "during": "'[2026-01-01,2026-01-02)'", "revs": "'[1,)'", "state": "'unknown'",
        "lost_ppm": "0", "basis": "'none'", "rule": "'silence'",
    } | cells  # fmt: skip
    return f"insert into ledger_entry ({', '.join(values)}) values ({', '.join(values.values())})"


def refused(connection: Connection, statement: str, reason: str) -> None:
    with pytest.raises(DBAPIError, match=reason), connection.begin_nested():
        connection.execute(text(statement))


def test_exclusion_constraints_read_literally(connection: Connection) -> None:
    found = {
        row.conname: row.definition
        for row in connection.execute(
            text("select conname, pg_get_constraintdef(oid) as definition from pg_constraint where contype = 'x'")
        )
    }
    assert found == CONSTRAINTS
    assert CONSTRAINTS["ex_ledger_entry_one_state"] == ("EXCLUDE USING gist (area WITH &&, revs WITH &&)")


def test_one_state_per_gpu_instant(connection: Connection) -> None:
    connection.execute(text(entry()))
    refused(connection, entry(slots="'[7,9)'"), "ex_ledger_entry_one_state")
    refused(connection, entry(during="'[2026-01-01 23:59:59.999,2026-01-03)'"), "ex_ledger_entry_one_state")
    connection.execute(text(entry(slots="'[8,9)'")))
    connection.execute(text(entry(during="'[2026-01-02,2026-01-03)'")))


@pytest.mark.parametrize(
    "cells",
    [
        {"slots": "'empty'"},
        {"slots": "null"},
        {"slots": "'[0,)'"},
        {"slots": "'(,8)'"},
        {"during": "'empty'"},
        {"during": "null"},
        {"during": "'[2026-01-01,)'"},
        {"during": "'(,2026-01-01)'"},
        {"during": "'[2026-01-01,infinity)'"},
        {"during": "'[2026-01-01,2026-01-02]'"},
        {"during": "'(2026-01-01,2026-01-02)'"},
        {"during": "'[2026-01-01 00:00:00.0001,2026-01-02)'"},
        {"revs": "'empty'"},
        {"revs": "null"},
        {"revs": "'(,2)'"},
    ],
    ids=str,
)
def test_ranges_that_would_slip_past_the_exclusion(connection: Connection, cells: dict[str, str]) -> None:
    refused(connection, entry(**cells), "violates (check|not-null) constraint|domain .* check|null value")


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"lost_ppm": "1"}, "ck_ledger_entry_loss"),
        ({"state": "'down'", "lost_ppm": "1000000"}, "ck_ledger_entry_nothing_invented"),
        ({"state": "'productive'", "rule": "'claim'", "basis": "'presumed'"}, "ck_ledger_entry_nothing_invented"),
        ({"state": "'down'", "rule": "'claim'", "lost_ppm": "500000"}, "ck_ledger_entry_loss"),
        ({"state": "'broken'"}, "gpu_state"),
        ({"rule": "'guess'"}, "violates check constraint"),
    ],
)
def test_entries_that_no_law_allows(connection: Connection, cells: dict[str, str], reason: str) -> None:
    refused(connection, entry(**cells), reason)


def test_entries_only_close_once(connection: Connection) -> None:
    connection.execute(text(entry()))
    refused(connection, "update ledger_entry set state = 'down'", "only closing an open revision span")
    refused(connection, "delete from ledger_entry", "rows are never deleted")
    refused(connection, "truncate ledger_entry", "TRUNCATE is refused")
    connection.execute(text("update ledger_entry set revs = int8range(lower(revs), 2)"))
    refused(connection, "update ledger_entry set revs = int8range(lower(revs), 3)", "only closing an open")


@pytest.mark.parametrize(
    "table",
    ["tenure", "evidence", "allocation", "incident_evidence", "incident_cause", "ledger_entry", "rate", "incident",
     "revision"],
)  # fmt: skip
def test_history_refuses_truncate(connection: Connection, table: str) -> None:
    refused(connection, f"truncate {table} cascade", "TRUNCATE is refused")


def test_a_symptom_is_never_charged_and_one_cause_is(connection: Connection) -> None:
    connection.execute(text("insert into incident default values"))
    charge = (
        "insert into incident_cause (incident_id, cause, is_symptom, role, set_by, reason, revs) "
        "select id, '{}', {}, 'charged', 'test', 'test', '[1,)' from incident"
    )
    refused(connection, charge.format("symptom/collective_timeout", "true"), "no_symptom_charged")
    refused(connection, charge.format("symptom/collective_timeout", "false"), "foreign key")
    connection.execute(text(charge.format("host/dram", "false")))
    refused(connection, charge.format("host/pcie", "false"), "ex_incident_cause_one_charged")


def test_one_gpu_per_slot_and_one_price_at_a_time(connection: Connection) -> None:
    connection.execute(text("insert into gpu (model) values ('a'), ('b')"))
    tenure = "insert into tenure (gpu_id, slot, during, stranded, revs) values ({}, {}, '[2026-01-01,)', false, '[1,)')"
    connection.execute(text(tenure.format(1, 5)))
    refused(connection, tenure.format(2, 5), "ex_tenure_one_gpu_per_slot")
    refused(connection, tenure.format(1, 6), "ex_tenure_one_slot_per_gpu")
    connection.execute(text("insert into rate_line (card, model, currency) values ('list', 'a', 'USD')"))
    rate = "insert into rate (line_id, per_gpu_hour, effective, revs) values (1, 2, '[2026-01-01,)', '[1,)')"
    connection.execute(text(rate))
    refused(connection, rate, "ex_rate_one_price")
    refused(connection, rate.replace("1, 2,", "1, -2,"), "per_gpu_hour_check")


def test_up_down_up(any_database_url: str) -> None:
    engine = engine_of(any_database_url)
    assert migrate.current(engine) is None
    migrate.upgrade(engine)
    assert migrate.current(engine) == migrate.newest()
    migrate.downgrade(engine, "base")
    with engine.connect() as connection:
        left = connection.execute(
            text(
                "select (select count(*) from pg_class where relnamespace = 'public'::regnamespace "
                "and relname !~ '^alembic') "
                "+ (select count(*) from pg_proc where pronamespace = 'public'::regnamespace) "
                "+ (select count(*) from pg_type where typnamespace = 'public'::regnamespace and typtype = 'd')"
            )
        ).scalar_one()
    assert left == 0
    migrate.upgrade(engine)
    assert migrate.current(engine) == migrate.newest()
    engine.dispose()


def test_the_box_of_a_rectangle_overlaps_as_its_ranges_do(connection: Connection) -> None:
    """Touching is no overlap, one slot and one millisecond are: on rectangles that lie close, and on far corners."""
    rows = connection.execute(
        text(
            """
            with edge as (select s, t, w, h, far from generate_series(0, 3) s, generate_series(0, 3) t,
              generate_series(1, 2) w, generate_series(1, 2) h, (values (0), (2000000000)) as f (far)),
            part as (select int4range(far + s, far + s + w) as slots,
              tstzrange('2026-10-25 00:59:59.998+00'::timestamptz + far / 1000000 * interval '1 day'
                + t * interval '1 millisecond', '2026-10-25 00:59:59.998+00'::timestamptz
                + far / 1000000 * interval '1 day' + (t + h) * interval '1 millisecond') as during from edge)
            select count(*) as pairs, count(*) filter (where a.slots && b.slots and a.during && b.during) as overlaps,
              count(*) filter (where (area_of(a.slots, a.during) && area_of(b.slots, b.during))
                <> (a.slots && b.slots and a.during && b.during)) as differ
            from part a, part b
            """
        )
    ).one()
    assert rows.pairs == 128 * 128
    assert 0 < rows.overlaps < rows.pairs
    assert rows.differ == 0
