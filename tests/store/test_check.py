"""The proofs of `gpu-minutes check`: each law is broken behind the guards' back and must be named."""

from __future__ import annotations

from decimal import Decimal

import pytest
from sqlalchemy import text

from tests.store.ledgers import (
    START,
    act,
    prove,
    said,
    take_in,
    with_fleet,
)
from warehouse import booking, pipeline
from warehouse.model.rate import RateSpec
from warehouse.model.state import State
from warehouse.store import revisions

MUTATIONS = {
    "conservation": "delete from ledger_entry where id = (select min(id) from ledger_entry where upper_inf(revs))",
    "one state per instant": "insert into ledger_entry (slots, during, revs, state, lost_ppm, basis, rule) "
    "select slots, during, revs, 'unknown', 0, 'none', 'silence' from ledger_entry where upper_inf(revs) limit 1",
    "nothing is invented": "update ledger_entry set state = 'recovering' where state = 'down' and upper_inf(revs)",
    "history is append-only": "update ledger_entry set cause = 'power/psu' where state = 'down' and upper_inf(revs)",
}


@pytest.mark.parametrize("law", MUTATIONS)
def test_check_sees_a_broken_law(database_url: str, law: str) -> None:
    engine = with_fleet(database_url)
    take_in(engine, said("1", State.DOWN, 1, 3, "a1", cause="host/dram"))
    with engine.begin() as connection:
        connection.execute(text("set session_replication_role = 'replica'"))
        connection.execute(text("alter table ledger_entry drop constraint ex_ledger_entry_one_state"))
        connection.execute(text(MUTATIONS[law]))
        connection.execute(
            text(
                "alter table ledger_entry add constraint ex_ledger_entry_one_state "
                "exclude using gist (during with &&, slots with &&, revs with &&)"
            )
        ) if law != "one state per instant" else None
    with engine.connect() as connection:
        broken = {p.law for p in prove(connection) if not p.holds}
    assert law in broken


ALTERED = {
    "a rate": "update rate set per_gpu_hour = 2 * per_gpu_hour",
    "evidence": "update evidence set detail = 'nothing happened'",
    "a tenure": "delete from tenure where id = (select max(id) from tenure)",
    "a membership": "update incident_cause set reason = 'because'",
}


@pytest.mark.parametrize("what", ALTERED)
def test_check_sees_altered_history_of_every_sort(database_url: str, what: str) -> None:

    engine = with_fleet(database_url)
    pipeline.load_rates(engine, [RateSpec("list", "H100", "USD", Decimal(3), START)], act("rates"))
    take_in(engine, said("1", State.DOWN, 1, 3, "a1", cause="host/dram"))
    with engine.begin() as connection:
        connection.execute(text("set session_replication_role = 'replica'"))
        connection.execute(text(ALTERED[what]))
    with engine.connect() as connection:
        broken = {p.law for p in prove(connection) if not p.holds}
    assert "history is append-only" in broken


def test_check_sees_an_entry_that_names_another_incident(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(
        engine,
        said("1", State.DOWN, 1, 3, "a1", cause="host/dram"),
        said("2", State.DOWN, 1, 3, "a2", cause="power/psu"),
    )
    with engine.begin() as connection:
        connection.execute(text("set session_replication_role = 'replica'"))
        connection.execute(text("update ledger_entry set incident_id = 2 where incident_id = 1"))
    with engine.connect() as connection:
        broken = {p.law for p in prove(connection) if not p.holds}
    assert "one charged cause" in broken


def test_deriving_days_again_sees_what_no_other_law_does(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(engine, said("1", State.DOWN, 1, 3, "a1", cause="host/dram"), said("2", State.DOWN, 1, 3, "a1"))
    with engine.begin() as connection:
        revision = revisions.latest(connection)
        assert revision is not None
        assert booking.differences(connection, revision) == (1, None)
        connection.execute(text("set session_replication_role = 'replica'"))
        swap = "update ledger_entry set evidence_id = 2, incident_id = 2, cause = 'unknown/unattributed'"
        connection.execute(text(swap + " where state = 'down'"))
        assert booking.differences(connection, revision) == (1, "2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("dropped", "said"),
    [
        (
            "alter table tenure drop constraint ex_tenure_one_gpu_per_slot",
            "the constraint ex_tenure_one_gpu_per_slot is gone",
        ),
        ("drop trigger no_truncate on rate", "the guard of rate against TRUNCATE is gone"),
        ("alter table rate disable trigger only_closes", "the guard of rate against DELETE is gone"),
        ("alter domain rev_span drop constraint rev_span_check", "the check of the domain rev_span is gone"),
        ("alter table ledger_entry drop constraint ck_ledger_entry_loss", "the check ck_ledger_entry_loss is gone"),
    ],
)
def test_check_sees_a_dropped_guard(database_url: str, dropped: str, said: str) -> None:
    engine = with_fleet(database_url)
    with engine.begin() as connection:
        connection.execute(text(dropped))
    with engine.connect() as connection:
        assert {p.law: p.said for p in prove(connection) if not p.holds} == {"guards stand": said}
