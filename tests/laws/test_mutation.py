"""Law 11, mutation: with the guards taken away, each injected fault is named by the law that it breaks."""

from __future__ import annotations

from decimal import Decimal

import pytest
from sqlalchemy import Connection, Engine, text

from tests.laws.statements import broken
from tests.laws.worlds import ALL_NODES, HOURS, START, World, act, at, build, newest
from warehouse import pipeline
from warehouse.ledger.laws import LawBroken
from warehouse.model.evidence import Allocation, Evidence
from warehouse.model.rate import RateSpec
from warehouse.model.state import State
from warehouse.store import revisions
from warehouse.views.check import check

WORLD = World(
    ALL_NODES,
    (
        Evidence("ops", "1", at(5), at(30), "a1", (), State.DOWN, cause="host/dram"),
        Evidence("ops", "2", at(40), at(45), "rack:rb", (), State.DEGRADED, cause="fabric/nic", lost_ppm=250_000),
        Allocation("j", 1, "red", "training", at(0), at(HOURS), "a2", ()),
    ),
    (RateSpec("list", "H100", "USD", Decimal(2), START, at(60)), RateSpec("list", "H100", "USD", Decimal(3), at(60))),
)

# What -> (the harm, the laws of `check` that name it, the numbers of the laws in SQL that give rows).
# Each harm breaks the chain as well, but for those that it does not read.
COLUMNS = "revs, state, lost_ppm, cause, incident_id, evidence_id, allocation_id, basis, rule"
MUTATIONS: dict[str, tuple[str, set[str], set[int]]] = {
    "an overlap": (
        f"insert into ledger_entry (slots, during, {COLUMNS}) select slots * int4range(0, 1), during, {COLUMNS} "
        "from ledger_head where slots @> 0 and state = 'down' order by during limit 1",
        {"conservation", "additivity", "one state per instant"},
        {1, 2},
    ),
    "an overlap of an old revision": (
        "insert into ledger_entry (slots, during, revs, state, lost_ppm, basis, rule) "
        "select slots, during, int8range(3, 4), 'unknown', 0, 'none', 'silence' from ledger_entry "
        "where revs @> cast(3 as bigint) limit 1",
        {"one state per instant"},
        {1, 2},
    ),
    "a gap": (
        "delete from ledger_entry where id = (select id from ledger_head where state = 'down' order by during limit 1)",
        {"conservation", "coverage", "additivity"},
        {1, 2},
    ),
    "a gap and an overlap of the same area": (
        "update ledger_entry set slots = int4range(lower(slots) + 8, upper(slots) + 8) where id = ("
        "select id from ledger_head where state = 'down' and slots = '[0,2)' order by during limit 1)",
        {"coverage", "additivity", "one state per instant", "nothing is invented"},
        {2, 13},
    ),
    "time outside tenure": (
        "insert into ledger_entry (slots, during, revs, state, lost_ppm, basis, rule) "
        "select '[100,101)', during, revs, 'unknown', 0, 'none', 'silence' from ledger_head limit 1",
        {"conservation", "coverage", "additivity"},
        {1, 2},
    ),
    "a longer entry": (
        "update ledger_entry set during = tstzrange(lower(during), upper(during) + interval '1 millisecond') "
        "where id = (select id from ledger_head order by upper(during) desc, slots limit 1)",
        {"conservation", "coverage", "additivity"},
        {1, 2, 10},
    ),
    "an invented state": (
        "update ledger_entry set state = 'recovering' where upper_inf(revs) and state = 'down'",
        {"nothing is invented"},
        {7, 13},
    ),
    "an invented loss": (
        "update ledger_entry set lost_ppm = 250001 where upper_inf(revs) and state = 'degraded'",
        {"nothing is invented"},
        {13},
    ),
    "another incident": (
        "update ledger_entry set incident_id = 3 - incident_id where upper_inf(revs) and incident_id is not null",
        {"one charged cause"},
        {8},
    ),
    "another cause": (
        "update ledger_entry set cause = 'power/psu' where upper_inf(revs) and state = 'down'",
        {"one charged cause"},
        set(),
    ),
    "two charged causes": (
        "insert into incident_cause (incident_id, cause, is_symptom, role, set_by, reason, revs) "
        "select incident_id, 'power/psu', false, role, set_by, reason, revs from incident_cause limit 1",
        {"one charged cause"},
        {8},
    ),
    "two prices": (
        "insert into rate (line_id, per_gpu_hour, effective, revs) "
        "select line_id, 1, effective, revs from rate limit 1",
        {"one price per instant"},
        {9},
    ),
    "a place that covers less": (
        "update place_extent set slots = '{[0,2)}' from place p where p.id = place_id and p.name = 'ra'",
        {"additivity"},
        {3},
    ),
    "a rewritten word": ("update evidence set detail = 'nothing happened'", set(), set()),
    "a deleted word": ("delete from allocation", {"nothing is invented", "holders"}, {13}),
    "a changed price": ("update rate set per_gpu_hour = 2 * per_gpu_hour", set(), set()),
    "another model": ("update gpu set model = 'B200' where id = 1", set(), set()),
    "another end of tenure": (
        "update tenure set during = tstzrange(lower(during), lower(during) + interval '1 day') where slot = 0",
        {"conservation", "coverage", "additivity"},
        {1, 2},
    ),
    "a hand-edited posting": ("update posting set gpu_ms = gpu_ms + 1", set(), set()),
    "a posting slipped in": (
        "insert into posting (site_id, billing, charge, charge_day, kind, card, currency, model, state, gpu_ms, "
        "lost_gpu_ms, revs) select site_id, billing, charge, charge_day, kind, card, currency, model, state, 1, 0, "
        "revs from posting limit 1",
        set(),
        set(),
    ),
    "another author": ("update revision set author = 'nobody' where rev = 2", set(), set()),
    "a lost revision": ("delete from revision where rev = 2", set(), set()),
}


@pytest.fixture
def ledger(engine: Engine) -> Engine:
    """A small ledger of every sort of row, one posting among them."""
    build(engine, WORLD)
    with engine.begin() as connection:
        revisions.lock_writer(connection)
        rev, before = pipeline.next_revision(connection)
        connection.execute(
            text(
                "insert into posting (site_id, billing, charge, charge_day, kind, card, currency, model, state, "
                "gpu_ms, lost_gpu_ms, revs) select id, '2026-03', '2026-03', '2026-03-08', 'usage', 'list', 'USD', "
                "'H100', 'down', 1000, 1000, int8range(:rev, null) from place where kind = 'site'"
            ),
            {"rev": rev},
        )
        pipeline.finish(connection, act("close"), rev, before, [], b"", book=False)
    return engine


def _disarm(connection: Connection) -> None:
    """Takes the guards away inside this transaction: triggers, exclusions, checks."""
    connection.execute(text("set local session_replication_role = 'replica'"))
    for table, constraint in (
        ("ledger_entry", "ex_ledger_entry_one_state"),
        ("ledger_entry", "ck_ledger_entry_nothing_invented"),
        ("incident_cause", "ex_incident_cause_one_charged"),
        ("rate", "ex_rate_one_price"),
    ):
        connection.execute(text(f"alter table {table} drop constraint {constraint}"))


def _broken(connection: Connection) -> dict[str, str]:
    return {p.law: p.said for p in check(connection, newest(connection)) if not p.holds}


@pytest.mark.parametrize("what", MUTATIONS)
def test_law_11_mutation(ledger: Engine, what: str) -> None:
    harm, laws, numbers = MUTATIONS[what]
    with ledger.connect() as connection:
        _disarm(connection)
        # The control: without guards, and unharmed, every law but that of the guards holds.
        assert _broken(connection) == {"guards stand": "the constraint ex_ledger_entry_one_state is gone"}
        assert broken(connection) == []
        assert connection.execute(text(harm)).rowcount >= 1
        found = _broken(connection)
        assert found.keys() == {*laws, "guards stand", "history is append-only"}
        assert {int(said.split()[0]) for said in broken(connection)} == numbers
        connection.rollback()


def test_law_11_names_the_place(ledger: Engine) -> None:
    """The first place is named: node, GPU, slot, instant and figures."""
    with ledger.connect() as connection:
        _disarm(connection)
        connection.execute(text(MUTATIONS["a gap"][0]))
        found = _broken(connection)
        # a1 has slots 0 and 1; it is down from 05:00 on the first day, so 19 hours of two GPUs are missing.
        assert found["coverage"] == (
            "a1 GPU 0 (slot 0) and 1 slots after it: installed and not booked "
            "from 2026-03-07T05:00:00Z to 2026-03-08T00:00:00Z"
        )
        day = 8 * 24 * 3_600_000
        assert found["conservation"] == (
            f"on the day of 2026-03-07T00:00:00Z {day - 2 * 19 * 3_600_000} GPU-ms are booked and {day} installed"
        )
        whole = 2 * HOURS * 3_600_000
        assert found["additivity"] == (f"node a1 has {whole - 2 * 19 * 3_600_000} GPU-ms booked and {whole} installed")
        connection.rollback()


def test_law_11_a_wrong_area(ledger: Engine) -> None:
    """The area that the exclusion compares is itself compared with slots and time."""
    with ledger.connect() as connection:
        _disarm(connection)
        connection.execute(text("alter table ledger_entry alter column area drop expression"))
        connection.execute(text("update ledger_entry set area = null where id = (select min(id) from ledger_head)"))
        assert "is not that of its slots and time" in _broken(connection)["one state per instant"]
        connection.rollback()


def test_law_11_the_pipeline_refuses_too(ledger: Engine) -> None:
    """A derivation over tenure that was harmed breaks conservation in the act itself, and stores nothing."""
    with pytest.raises(LawBroken, match="conservation"), ledger.begin() as connection:
        from warehouse import booking
        from warehouse.model.time import Window
        from warehouse.store import fleet

        blocks = fleet.tenure_blocks(connection, newest(connection).rev)
        booking.derive(connection, Window(START, at(24)), [*blocks, *blocks], at(HOURS))
