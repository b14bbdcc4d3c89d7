"""Where parts meet: closed months, shares, empty slots, rulings and the chain, each beside another."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import Connection, Engine, text

from tests.periods.farms import act, assert_ties, close, down, farm, held, node, rate, say
from tests.store.ledgers import open_engine
from warehouse import pipeline, views
from warehouse.acts import ruling
from warehouse.acts.install import install
from warehouse.model.evidence import Allocation
from warehouse.model.fleet import Placing
from warehouse.model.state import State
from warehouse.model.statement import Batch, Statement
from warehouse.model.time import MS_PER_HOUR, Window, parse_instant
from warehouse.store import revisions
from warehouse.store.revisions import Revision
from warehouse.views.conflicts import conflicts
from warehouse.views.proofs.chain import unbroken

DAY = ("2026-08-01T00:00:00Z", "2026-08-02T00:00:00Z")
TWO_HOURS = ("2026-08-01T02:00:00Z", "2026-08-01T04:00:00Z")


@pytest.fixture
def engine(database_url: str) -> Engine:
    """One node of four GPUs since July, at 2.00 USD."""
    return farm(database_url, [node("m1", zone="UTC")], rate("2.00"))


def newest(connection: Connection) -> Revision:
    revision = revisions.latest(connection)
    assert revision is not None
    return revision


def shared(job: str, ppm: int) -> Allocation:
    return replace(held(job, job, *DAY, "m1"), share_ppm=ppm)


@pytest.mark.parametrize("emptied", [False, True])
def test_a_closed_month_that_loses_all_its_gpus_is_taken_back(engine: Engine, emptied: bool) -> None:
    for code in ("2026-07", "2026-08"):
        close(engine, code)
    gone = parse_instant("2026-07-20")
    if emptied:
        install(engine, [Placing("m1", index, gone) for index in range(4)], act("fleet"))
    else:
        pipeline.load_fleet(engine, [node("m1", zone="UTC", retired_ms=gone)], act("fleet"))
    assert_ties(engine)
    with engine.connect() as connection:
        found = views.corrections(connection, newest(connection).rev)
    # July loses 12 days, August all of its 31, of four GPUs at 2 USD an hour.
    assert [(row["charge"], row["worth"]) for row in found] == [
        ("2026-07", f"-{12 * 24 * 4 * 2}.00"),
        ("2026-08", f"-{31 * 24 * 4 * 2}.00"),
    ]


def test_nothing_is_written_under_a_revision_that_is_not(database_url: str) -> None:
    engine = open_engine(database_url)
    pipeline.load_fleet(engine, [node("m1", zone="UTC")], act("fleet"))
    early = parse_instant("2026-08-01")
    later = down("1", "2026-09-01T02:00:00Z", "2026-09-01T04:00:00Z", "m1")
    pipeline.take_in(engine, Batch((Statement("x", later),), 1), act("import", early), book=False)
    pipeline.book(engine, act("derive", early))
    assert not pipeline.book(engine, act("derive", early)).changed
    say(engine, replace(later, cause="power/psu"), revise=True)
    with engine.connect() as connection:
        assert unbroken(connection, newest(connection)) is None


def test_a_ruling_gives_no_horizon_where_there_was_none(database_url: str) -> None:
    engine = open_engine(database_url)
    pipeline.load_fleet(engine, [node("m1", zone="UTC")], act("fleet"))
    later = down("1", "2026-09-01T02:00:00Z", "2026-09-01T04:00:00Z", "m1")
    pipeline.take_in(engine, Batch((Statement("x", later),), 1), act("import", parse_instant("2026-08-01")))
    assert ruling.attribute(engine, 1, "power/psu", act("ruling")).done.horizon_ms is None


def test_marginal_of_a_shared_gpu_and_of_one_site(database_url: str) -> None:
    nodes = [node("m1", zone="UTC"), node("b1", "berlin", zone="UTC")]
    engine = farm(database_url, nodes, rate("2.00"))
    say(engine, shared("j1", 500_000))
    say(engine, down("1", *TWO_HOURS, "m1", state=State.HUNG), down("2", *TWO_HOURS, "b1+m1", "power/psu"))
    with engine.connect() as connection:
        for number, site, gpu_hours in ((1, None, 0), (2, None, 16), (2, "berlin", 8)):
            question = views.ask(connection, newest(connection), None, None, None, site)
            answer = views.incident(connection, question, number)
            assert answer is not None
            assert answer["gpu_ms"] == gpu_hours * MS_PER_HOUR
            told = views.marginal(connection, question, answer)
            assert sum(told["would_have_been"].values()) == answer["gpu_ms"]  # type: ignore[attr-defined]


def test_marginal_of_a_hang_on_half_a_gpu(engine: Engine) -> None:
    say(engine, shared("j1", 500_000))
    say(engine, down("1", *TWO_HOURS, "m1", state=State.HUNG))
    with engine.connect() as connection:
        question = views.ask(connection, newest(connection), None, None)
        answer = views.incident(connection, question, 1)
        assert answer is not None
        assert answer["gpu_ms"] == 4 * MS_PER_HOUR
        told = views.marginal(connection, question, answer)
    assert told["would_have_been"]["good"] == 4 * MS_PER_HOUR  # type: ignore[index]


def test_contested_time_beside_an_empty_slot_names_the_right_gpu(engine: Engine) -> None:
    install(engine, [Placing("m1", 0, parse_instant("2026-07-20"))], act("fleet"))
    say(engine, held("a", "a", *DAY, "m1/2"), held("b", "b", *DAY, "m1/2"))
    with engine.connect() as connection:
        found = conflicts(connection, newest(connection).rev, Window(*map(parse_instant, DAY)))
    assert [conflict.scope for conflict in found] == [("m1/2",)]


def test_the_part_that_nobody_holds_is_no_job_s(engine: Engine) -> None:
    say(engine, shared("j1", 250_000))
    say(engine, down("1", *TWO_HOURS, "m1", job="j1"))
    with engine.connect() as connection:
        question = views.ask(connection, newest(connection), *map(parse_instant, TWO_HOURS))
        for by, key in (("job", "j1"), ("tenant", "j1")):
            rows = views.goodput(connection, question, by)["rows"]
            assert {row["key"]: row["gpu_ms"] for row in rows} == {  # type: ignore[attr-defined]
                key: 2 * MS_PER_HOUR,
                "none": 6 * MS_PER_HOUR,
            }


def test_a_rewritten_merger_breaks_the_chain(engine: Engine) -> None:
    later = ("2026-08-05T02:00:00Z", "2026-08-05T04:00:00Z")
    say(engine, down("1", *TWO_HOURS, "m1"), down("2", *later, "m1"))
    ruling.merge(engine, 2, 1, act("ruling"))
    with engine.connect() as connection:
        assert unbroken(connection, newest(connection)) is None
        connection.execute(text("set local session_replication_role = 'replica'"))
        connection.execute(text("update incident set merged_into = null, merged_rev = null, revs = null where id = 2"))
        assert "revision" in (unbroken(connection, newest(connection)) or "")
        connection.rollback()


def test_an_empty_slot_is_empty_behind_the_horizon_too(database_url: str) -> None:
    engine = farm(database_url, [node("m1", zone="UTC")], rate("2.00"), until="2026-08-01")
    install(engine, [Placing("m1", 0, parse_instant("2026-07-20"))], act("fleet", parse_instant("2026-08-01")))
    with engine.connect() as connection:
        days = [views.node_day(connection, newest(connection), "m1", day) for day in ("2026-07-25", "2026-08-05")]
    assert [day["installed_gpu_ms"] for day in days] == [72 * MS_PER_HOUR] * 2
