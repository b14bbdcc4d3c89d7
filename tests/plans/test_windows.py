"""Windows in the real ledger: who owns an outage, order, batching, revising, and what is shown."""

from __future__ import annotations

import random

import pytest
from sqlalchemy import Engine, text

from tests.store.ledgers import GPUS, NOW, START, act, at, goodput, grouping, prove, rows, said, tiling, with_fleet
from tests.store.test_pipeline import random_statements
from warehouse import pipeline, views
from warehouse.errors import BadInput
from warehouse.model.evidence import Allocation, Evidence
from warehouse.model.plan import Plan
from warehouse.model.state import State
from warehouse.model.statement import Batch, Statement
from warehouse.model.time import MS_PER_DAY, MS_PER_HOUR
from warehouse.pipeline import Done
from warehouse.store import revisions

PLANNED = "operations/planned_maintenance"
OVERRUN = "operations/unplanned_maintenance"


def plan(key: str, start: float, end: float, scope: str, declared: float = -24, **more: object) -> Plan:
    actual = more.pop("actual_end", None)
    actual_ms = at(actual) if isinstance(actual, int | float) else None
    return Plan(key, at(start), at(end), scope, (), at(declared), "work", actual_end_ms=actual_ms, **more)  # type: ignore[arg-type]


def daily(key: str, start: float, end: float, scope: str, rule: str = "FREQ=DAILY", declared: float = -24) -> Plan:
    return plan(key, start, end, scope, declared, timezone="UTC", rrule=rule)


def take_in(engine: Engine, *items: Evidence | Allocation | Plan, now_ms: int = NOW, **options: bool) -> Done:
    statements = tuple(Statement(f"item {number}", item) for number, item in enumerate(items, start=1))
    return pipeline.take_in(engine, Batch(statements, len(statements)), act(now_ms=now_ms), **options)


def hours(engine: Engine, by: str = "state") -> dict[str, float]:
    """Gives the GPU-hours of the first ten days by key, per GPU of a node."""
    found = rows(goodput(engine, by=by))
    return {key: row["gpu_ms"] / MS_PER_HOUR / GPUS for key, row in found.items() if key not in ("unknown", "none")}


def proofs_hold(engine: Engine) -> bool:
    with engine.connect() as connection:
        return all(proof.holds for proof in prove(connection))


def late_hours(engine: Engine) -> float:
    with engine.connect() as connection:
        revision = revisions.latest(connection)
        assert revision is not None
        question = views.ask(connection, revision, START, START + 10 * MS_PER_DAY)
        return int(str(views.goodput(connection, question)["declared_late_gpu_ms"])) / MS_PER_HOUR / GPUS


def listed(engine: Engine, as_of: int | None = None) -> list[tuple[object, ...]]:
    with engine.connect() as connection:
        revision = revisions.latest(connection, as_of)
        assert revision is not None
        answer = views.maintenance(connection, revision, None, START + 10 * MS_PER_DAY)
        found = answer["windows"]
    assert isinstance(found, list)
    columns = ("id", "start", "declared_late", "planned_gpu_ms", "overrun_gpu_ms")
    return [tuple(row[column] for column in columns) for row in found]


def test_pain_27_a_window_books_nothing_before_its_time(database_url: str) -> None:
    engine = with_fleet(database_url)
    done = take_in(engine, said("1", State.IDLE, 0, 30, "b1"), plan("w", 48, 50, "a1"), now_ms=at(40))
    assert done.horizon_ms == at(30)
    assert "maintenance" not in hours(engine)
    assert listed(engine) == [("w", "2026-01-03T00:00:00Z", False, None, None)]
    # Half of it has passed, then all.
    pipeline.book(engine, act("derive", now_ms=at(49)), until_ms=at(49))
    assert hours(engine)["maintenance"] == 1
    pipeline.book(engine, act("derive"))
    assert hours(engine)["maintenance"] == 2
    assert not pipeline.book(engine, act("derive")).changed
    assert proofs_hold(engine)


def test_an_endless_rule_does_not_move_the_horizon_and_follows_it(database_url: str) -> None:
    engine = with_fleet(database_url)
    fact = said("1", State.IDLE, 0, 25, "b1")
    # Each ends where the next begins: were its end a fact, the rule would book itself to the present.
    first = take_in(engine, fact, daily("w", 0, 24, "a1"))
    assert (first.horizon_ms, first.unfolded) == (at(25), 2)
    pipeline.book(engine, act("derive", now_ms=at(120)), until_ms=at(100))
    assert hours(engine)["maintenance"] == 100
    again = pipeline.book(engine, act("derive"), until_ms=at(100))
    assert not again.changed
    whole = [row for row in listed(engine) if row[3] is not None]
    assert len(whole) == 5
    assert proofs_hold(engine)


def test_pain_28_a_late_window_cannot_absorb_what_was_running(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(
        engine,
        said("running", State.DOWN, 2, 6, "a1", cause="host/dram"),
        said("after", State.DOWN, 12, 14, "a1", cause="host/dram"),
        plan("late", 1, 20, "a1", declared=10),
    )
    # 1 to 20 is 19 hours: 4 stay down, and the fault of 12 to 14 began after the declaration.
    assert hours(engine) == {"down": 4, "maintenance": 15}
    assert late_hours(engine) == 15
    assert [row[2:] for row in listed(engine)] == [(True, 15 * GPUS * MS_PER_HOUR, 0)]
    assert proofs_hold(engine)


def test_pain_28_an_outage_that_ran_before_the_window_is_not_absorbed(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(engine, said("1", State.DOWN, 0, 6, "a1", cause="host/dram"), plan("w", 2, 8, "a1"))
    assert hours(engine) == {"down": 6, "maintenance": 2}
    assert late_hours(engine) == 0


def test_a_fault_that_outlasts_windows_over_several_racks_is_their_overrun(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(
        engine,
        plan("a", 10, 12, "rack:rack-a"),
        plan("b", 10, 12, "rack:rack-b"),
        said("1", State.DOWN, 11, 15, "hall:h"),
        said("2", State.DOWN, 40, 44, "site:s"),
        plan("c", 39, 41, "rack:rack-a"),
    )
    # Four nodes: 2 hours planned and 3 past the end; the second fault lay in a window on half of its slots only.
    assert hours(engine, "cause") == {PLANNED: 4 * 2 + 2 * 2, OVERRUN: 4 * 3, "unknown/unattributed": 2 * 3 + 2 * 4}
    assert grouping(engine) == [(OVERRUN, ["1"]), ("unknown/unattributed", ["2"])]
    assert [row[4] for row in listed(engine)] == [2 * 3 * GPUS * MS_PER_HOUR] * 2 + [0]
    assert proofs_hold(engine)


def test_a_fault_that_outlasts_an_occurrence_stays_down_in_the_next(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(engine, daily("w", 2, 4, "a1"), said("1", State.DOWN, 27, 52, "a1"), said("2", State.IDLE, 0, 100, "b1"))
    # Occurrences at 2, 26, 50, 74, 98. In the second the fault begins; it is still down in the third until 52.
    assert hours(engine, "cause") == {PLANNED: 4 * 2, OVERRUN: 52 - 28}
    assert [row[3] for row in listed(engine)][:5] == [2 * GPUS * MS_PER_HOUR] * 2 + [0] + [2 * GPUS * MS_PER_HOUR] * 2
    assert grouping(engine) == [(OVERRUN, ["1"])]


def test_the_actual_end_ends_the_claim_or_makes_an_overrun(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(engine, plan("early", 2, 6, "a1"), plan("late", 2, 6, "a2"), plan("off", 2, 6, "b1"))
    assert hours(engine) == {"maintenance": 12}
    done = take_in(
        engine,
        plan("early", 2, 6, "a1", actual_end=3),
        plan("late", 2, 6, "a2", actual_end=9),
        plan("off", 2, 6, "b1", actual_end=2),
    )
    assert hours(engine, "cause") == {PLANNED: 1 + 4, OVERRUN: 3}
    assert grouping(engine) == [(OVERRUN, ["late@overrun"])]
    # The older file says nothing new.
    assert not take_in(engine, plan("late", 2, 6, "a2")).changed
    # A correction takes the overrun back, and nothing of the incident is left to count.
    take_in(engine, plan("late", 2, 6, "a2", actual_end=6), revise=True)
    assert hours(engine, "cause") == {PLANNED: 5}
    assert [row["incidents"] for row in rows(goodput(engine)).values() if row["incidents"]] == []
    # And it can be said once more.
    take_in(engine, plan("late", 2, 6, "a2", actual_end=7), revise=True)
    assert hours(engine, "cause") == {PLANNED: 5, OVERRUN: 1}
    assert rows(goodput(engine, done.rev, by="cause"))[OVERRUN]["gpu_ms"] == 3 * GPUS * MS_PER_HOUR
    assert proofs_hold(engine)


def test_a_revised_rule_withdraws_and_says_anew(database_url: str) -> None:
    engine = with_fleet(database_url)
    fact = said("1", State.IDLE, 0, 200, "b1")
    first = take_in(engine, fact, daily("w", 2, 4, "a1"))
    assert hours(engine)["maintenance"] == 2 * 9  # at 2, 26, ... 194
    with pytest.raises(BadInput, match="declared with other content"):
        take_in(engine, daily("w", 2, 5, "a1"))
    take_in(engine, daily("w", 2, 5, "a1", "FREQ=DAILY;INTERVAL=2"), revise=True)
    assert hours(engine)["maintenance"] == 3 * 5  # at 2, 50, 98, 146, 194
    assert len(listed(engine, first.rev)) == 10  # the tenth at 218 is not booked yet
    take_in(engine, daily("w", 2, 4, "a1"), revise=True)
    fresh = tiling(engine)
    take_in(engine, daily("w", 2, 4, "a1"), revise=True)
    assert tiling(engine) == fresh
    assert hours(engine)["maintenance"] == 2 * 9
    # Called off as a whole: a single window that ended when it began.
    take_in(engine, plan("w", 2, 4, "a1", actual_end=2), revise=True)
    assert "maintenance" not in hours(engine)
    assert proofs_hold(engine)


def test_a_deferred_revision_is_unfolded_by_the_next_booking(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(engine, said("1", State.IDLE, 0, 100, "b1"), daily("w", 50, 52, "a1"))
    take_in(engine, daily("w", 2, 4, "a1"), book=False, revise=True)
    assert goodput(engine)["provisional"] is True
    done = pipeline.book(engine, act("derive"))
    assert done.changed
    assert hours(engine)["maintenance"] == 2 * 5  # at 2, 26, 50, 74, 98
    assert not pipeline.book(engine, act("derive")).changed
    assert proofs_hold(engine)


def test_a_deferred_import_that_changes_no_entry_is_still_a_revision(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(engine, said("1", State.DOWN, 0, 10, "a1", cause="host/dram"))
    take_in(engine, said("2", State.IDLE, 2, 3, "a1"), book=False)
    assert pipeline.book(engine, act("derive")).changed
    assert proofs_hold(engine)


def test_a_rack_that_grows_grows_its_windows(database_url: str) -> None:
    from warehouse.model.fleet import NodeSpec

    engine = with_fleet(database_url)
    take_in(engine, said("1", State.IDLE, 0, 60, "b1"), daily("w", 2, 4, "rack:rack-a"))
    pipeline.load_fleet(engine, [NodeSpec("s", "h", "rack-a", "a3", GPUS, "H100", START)], act("fleet"))
    take_in(engine, said("2", State.IDLE, 60, 80, "b1"))
    assert hours(engine)["maintenance"] == 3 * 2 * 4  # three nodes, at 2, 26, 50 and 74
    assert proofs_hold(engine)


def _random_plans(seed: int) -> list[Plan]:
    rng = random.Random(seed)
    found = []
    for number in range(4):
        start = rng.randrange(0, 60)
        length = rng.randrange(1, 20)
        scope = rng.choice(["a1", "a2+b1", "rack:rack-a", "site:s"])
        declared = rng.choice([-24, start + 5])
        actual = rng.choice([None, None, start + rng.randrange(0, 30)])
        rule = rng.choice([None, "FREQ=DAILY", "FREQ=HOURLY;INTERVAL=30"])
        found.append(
            plan(f"w{number}", start, start + length, scope, declared, actual_end=actual)
            if rule is None
            else daily(f"w{number}", start, start + length, scope, rule, declared)
        )
    return found


@pytest.mark.parametrize("seed", range(3))
def test_any_order_and_batching_gives_the_same_tiling(database_url: str, embedded_server: str, seed: int) -> None:
    from tests.conftest import _fresh_database

    items: list[Evidence | Allocation | Plan] = [*random_statements(200 + seed), *_random_plans(seed)]
    whole = with_fleet(database_url)
    take_in(whole, *items)
    parts = with_fleet(_fresh_database(embedded_server))
    rng = random.Random(seed)
    shuffled = items + rng.sample(items, len(items) // 2)
    rng.shuffle(shuffled)
    while shuffled:
        size = rng.randrange(1, 8)
        take_in(parts, *shuffled[:size], book=rng.random() < 0.7 or len(shuffled) <= size)
        shuffled = shuffled[size:]
    again = pipeline.book(parts, act("derive"))
    assert (again.closed, again.opened) == (0, 0)
    assert tiling(parts) == tiling(whole)
    assert grouping(parts) == grouping(whole)
    assert proofs_hold(parts)
    with parts.connect() as connection:
        keys = "select key from evidence where source = 'maintenance' and upper_inf(revs) order by 1"
        stepwise = list(connection.execute(text(keys)).scalars())
    with whole.connect() as connection:
        assert list(connection.execute(text(keys)).scalars()) == stepwise
