"""Fleets that change: growth, moves, rebuilt nodes, two sites; and old revisions that stay the same after it all."""

from __future__ import annotations

from decimal import Decimal

import pytest
from sqlalchemy import Engine

from tests.conftest import _fresh_database
from tests.store.ledgers import (
    GPUS,
    NODES,
    START,
    act,
    at,
    goodput,
    held,
    open_engine,
    prove,
    rows,
    said,
    take_in,
    with_fleet,
)
from warehouse import pipeline, views
from warehouse.errors import BadInput
from warehouse.model.fleet import NodeSpec
from warehouse.model.rate import RateSpec
from warehouse.model.state import State
from warehouse.model.time import MS_PER_DAY, MS_PER_HOUR
from warehouse.store import revisions
from warehouse.store.scopes import Resolver


def test_a_rack_outage_covers_nodes_loaded_later(database_url: str, embedded_server: str) -> None:
    from warehouse.model.fleet import NodeSpec

    more = [NodeSpec("s", "h", "rack-a", f"a{n}", GPUS, "H100", START) for n in range(3, 9)]
    outage = said("1", State.DOWN, 0, 24, "rack:rack-a", cause="power/psu")
    before, after = with_fleet(database_url), with_fleet(_fresh_database(embedded_server))
    take_in(before, outage)
    pipeline.load_fleet(before, more, act("fleet"))
    pipeline.load_fleet(after, more, act("fleet"))
    take_in(after, outage)
    assert rows(goodput(before))["down"]["gpu_ms"] == 8 * GPUS * MS_PER_DAY
    assert rows(goodput(before)) == rows(goodput(after))
    again = take_in(before, outage)
    assert (again.changed, again.intake.repeated) == (False, 1)


def test_a_node_rebuilt_with_more_gpus_is_named_as_it_was_then(database_url: str) -> None:
    from warehouse.model.fleet import NodeSpec

    engine = open_engine(database_url)
    first = NodeSpec("s", "h", "r", "n", 8, "H100", START, START + 10 * MS_PER_DAY)
    second = NodeSpec("s", "h", "r2", "n", 16, "B200", START + 10 * MS_PER_DAY)
    pipeline.load_fleet(engine, [NodeSpec("s", "h", "r", "n", 8, "H100", START)], act("fleet"))
    pipeline.load_fleet(engine, [first, second], act("fleet"))
    take_in(engine, said("1", State.DOWN, 0, 1, "n/7"), said("2", State.DOWN, 300, 301, "n/15"))
    with pytest.raises(BadInput, match="node n has GPUs 0 to 7"):
        take_in(engine, said("3", State.DOWN, 0, 1, "n/8"))
    whole = views_goodput(engine, START, START + 15 * MS_PER_DAY)
    assert rows(whole)["down"]["gpu_ms"] == 2 * MS_PER_HOUR
    assert rows(views_goodput(engine, START, START + 15 * MS_PER_DAY, "rack")).keys() == {"r", "r2"}


def views_goodput(engine: Engine, start_ms: int, end_ms: int, by: str = "state") -> dict[str, object]:
    with engine.connect() as connection:
        revision = revisions.latest(connection)
        assert revision is not None
        return views.goodput(connection, views.ask(connection, revision, start_ms, end_ms), by)


def test_two_sites_share_no_row_and_say_which_node(database_url: str) -> None:

    engine = with_fleet(database_url)
    twin = [NodeSpec("t", "h", "rack-a", "a1", GPUS, "H100", START, timezone="Europe/Berlin")]
    pipeline.load_fleet(engine, twin, act("fleet"))
    with pytest.raises(BadInput, match="stands in 2 sites; write site:s/a1 or site:t/a1"):
        take_in(engine, said("1", State.DOWN, 0, 1, "a1"))
    take_in(engine, said("1", State.DOWN, 0, 1, "site:t/a1"), said("2", State.DOWN, 5, 6, "site:s/a1/0"))
    nodes = rows(goodput(engine, by="node"))
    assert {key: row["lost_gpu_ms"] for key, row in nodes.items()} == {
        "t/h/rack-a/a1": GPUS * MS_PER_HOUR, "s/h/rack-a/a1": MS_PER_HOUR, "a2": 0, "b1": 0, "b2": 0,
    }  # fmt: skip


def test_an_old_revision_gives_the_same_answers_after_anything(database_url: str) -> None:

    engine = with_fleet(database_url)
    take_in(engine, held("j", 0, 48, "a1+a2"), said("1", State.DOWN, 30, 40, "rack:rack-a", cause="power/psu"))
    done = pipeline.load_rates(engine, [RateSpec("list", "H100", "USD", Decimal(2), START)], act("rates"))
    before = everything_at(engine, done.rev)
    more = [NodeSpec("s", "h", "rack-a", f"x{n}", 8, "H100", START) for n in range(4)]
    pipeline.load_fleet(
        engine, [*more, NodeSpec("t", "h", "rack-a", "a1", 4, "H100", START, timezone="Asia/Tokyo")], act("fleet")
    )
    pipeline.load_rates(engine, [RateSpec("list", "B200", "USD", Decimal(5), START)], act("rates"))
    take_in(engine, said("2", State.DOWN, 40, 50, "rack:rack-b", cause="power/psu"))
    take_in(engine, said("1", State.DOWN, 30, 44, "rack:rack-b", cause="host/dram"), revise=True)
    assert everything_at(engine, done.rev) == before
    assert everything_at(engine, done.rev + 4) != before


def everything_at(engine: Engine, rev: int) -> list[object]:
    with engine.connect() as connection:
        revision = revisions.latest(connection, rev)
        assert revision is not None
        question = views.ask(connection, revision, None, None)
        return [
            *(views.goodput(connection, question, by) for by in views.GROUPINGS),
            views.incidents(connection, question),
            views.incident(connection, question, 1),
            views.fleet(connection, rev),
            views.rates(connection, rev),
        ]


def test_stranded_nodes_are_installed_and_never_lost_to_an_incident(database_url: str) -> None:
    from warehouse.model.fleet import NodeSpec

    engine = open_engine(database_url)
    spec = NodeSpec("s", "h", "r", "x1", 8, "H100", START, START + MS_PER_DAY, stranded=True)
    pipeline.load_fleet(engine, [spec], act("fleet"))
    answer = goodput(engine)
    assert rows(answer)["stranded"]["gpu_ms"] == answer["installed_gpu_ms"] == 8 * MS_PER_DAY
    assert answer["classes"]["unused"] == 8 * MS_PER_DAY  # type: ignore[index]
    with engine.connect() as connection:
        proofs = prove(connection)
    assert all(proof.holds for proof in proofs), proofs


def test_slots_are_given_in_blocks_and_racks_keep_room(database_url: str) -> None:
    engine = with_fleet(database_url)
    with engine.connect() as connection:
        resolver = Resolver(connection, START)
        assert [resolver.scope(node, START) for node in NODES] == [((0, 4),), ((8, 12),), ((16, 20),), ((24, 28),)]
        assert resolver.scope("rack:rack-b", START) == ((16, 32),)
        assert resolver.scope("b1/3+a1/0", START) == ((0, 1), (19, 20))
        assert resolver.node("a2") == ((8, 12),)


def test_a_node_is_named_as_it_stood_whatever_was_loaded_first(database_url: str, embedded_server: str) -> None:
    early = NodeSpec("s", "h", "rA", "n1", 2, "H100", START, START + 10 * MS_PER_DAY)
    late = NodeSpec("s", "h", "rB", "n1", 4, "H100", START + 20 * MS_PER_DAY)
    found = []
    for order in ([early, late], [late, early]):
        engine = open_engine(_fresh_database(embedded_server))
        for spec in order:
            pipeline.load_fleet(engine, [spec], act("fleet"))
        # In the gap the last tenure before it is meant: nothing of the later one is down.
        take_in(engine, said("1", State.DOWN, 24 * 15, 24 * 25, "n1/0"), said("2", State.DOWN, 24 * 9, 24 * 25, "n1"))
        found.append(rows(views_goodput(engine, START, START + 30 * MS_PER_DAY)))
    assert found[0] == found[1]
    assert found[0]["down"]["gpu_ms"] == 2 * MS_PER_DAY


def test_old_words_can_be_said_again_and_closed_after_the_name_became_ambiguous(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(engine, said("1", State.DOWN, 0, None, "a1"), held("j", 0, None, "a2"))
    twins = [NodeSpec("t", "h", "r", name, GPUS, "H100", START) for name in ("a1", "a2")]
    pipeline.load_fleet(engine, twins, act("fleet"))
    assert not take_in(engine, said("1", State.DOWN, 0, None, "a1")).changed
    closed = take_in(engine, said("1", State.DOWN, 0, 24, "a1"), held("j", 0, 48, "a2"))
    assert (len(closed.intake.superseded), len(closed.intake.superseded_allocations)) == (1, 1)
    assert rows(goodput(engine))["down"]["gpu_ms"] == GPUS * MS_PER_DAY
    assert rows(goodput(engine, by="job"))["j"]["gpu_ms"] == 2 * GPUS * MS_PER_DAY


def test_the_worker_knows_nodes_that_came_or_left_within_its_window(database_url: str) -> None:
    engine = open_engine(database_url)
    came = NodeSpec("s", "h", "r", "came", 4, "H100", at(5))
    left = NodeSpec("s", "h", "r", "left", 4, "H100", START, at(5))
    later = NodeSpec("s", "h", "r", "later", 4, "H100", at(20))
    pipeline.load_fleet(engine, [came, left, later], act("fleet"))
    with engine.connect() as connection:
        resolver = Resolver(connection, at(6))
        assert resolver.node("came") == ((0, 4),)
        assert resolver.gpu("left", 3) == ((19, 20),)
        assert resolver.node("later") is None
        assert resolver.node("nobody") is None
