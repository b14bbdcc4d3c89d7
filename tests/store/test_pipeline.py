"""The line through the real database: determinism, late data, revisions, and checks that see what they guard."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest

from tests.ledger.oracle import verdict
from tests.store.ledgers import (
    GPUS,
    NODES,
    NOW,
    START,
    act,
    at,
    entry_rows,
    goodput,
    grouping,
    held,
    prove,
    rows,
    said,
    take_in,
    tiling,
    with_fleet,
)
from warehouse import pipeline, views
from warehouse.errors import BadInput
from warehouse.ledger.claims import allocation_claims, evidence_claims, tenure_claims
from warehouse.model.evidence import Allocation, Evidence
from warehouse.model.state import PARTIAL, State
from warehouse.model.time import MS_PER_DAY, MS_PER_HOUR, Window
from warehouse.store import evidence, fleet, revisions

OVERRUN = "operations/unplanned_maintenance"


CAUSES = ["host/dram", "fabric/nic", "power/psu", None]


def random_statements(seed: int) -> list[Evidence | Allocation]:
    rng = random.Random(seed)
    scopes = [
        *NODES,
        *(f"{node}/{index}" for node in NODES for index in range(GPUS)),
        "rack:rack-a",
        "hall:h",
        "site:s",
    ]
    items: list[Evidence | Allocation] = []
    for number in range(rng.randrange(5, 25)):
        state = rng.choice([s for s in State if s is not State.STRANDED])
        start = rng.randrange(0, 70)
        end = None if rng.random() < 0.05 else start + rng.randrange(0, 30)
        lost = rng.randrange(1, 1_000_001) if state in PARTIAL else None
        cause = rng.choice(CAUSES) if state is State.DOWN else None
        scope = "+".join(rng.sample(scopes, rng.randrange(1, 3)))
        items.append(said(str(number), state, start, end, scope, lost_ppm=lost, cause=cause))
    for number in range(rng.randrange(0, 4)):
        start = rng.randrange(0, 60)
        items.append(held(f"job-{number}", start, start + rng.randrange(1, 40), rng.choice(NODES)))
    return items


@pytest.mark.parametrize("seed", range(8))
def test_stored_tiling_is_what_the_rules_say_at_every_instant(database_url: str, seed: int) -> None:
    engine = with_fleet(database_url)
    done = take_in(engine, *random_statements(seed))
    horizon = done.horizon_ms
    assert horizon is not None
    stored = entry_rows(engine)
    with engine.connect() as connection:
        blocks = fleet.tenure_blocks(connection, done.rev)
        everything = [
            *tenure_claims(blocks, horizon),
            *evidence_claims(evidence.in_window(connection, Window(0, 2 * NOW)), lambda e: (None, None), horizon),
            *allocation_claims(evidence.allocations_in(connection, Window(0, 2 * NOW)), horizon),
        ]
        proofs = prove(connection)
    assert [proof for proof in proofs if not proof.holds] == []
    keys = {claim.evidence_id: claim.key for claim in everything}
    everything = [_numbered(claim) for claim in everything]
    rng = random.Random(seed)
    for _ in range(400):
        slot = rng.choice([low + n for block in blocks for low, high in block.slots for n in range(high - low)])
        instant = rng.randrange(START, min(horizon, at(120)))
        expected = verdict(everything, slot, instant)
        (found,) = [e for e in stored if e[0] <= slot < e[1] and e[2] <= instant < e[3]]
        assert expected is not None
        assert found[4] == expected.state
        assert found[5] == (None if expected.evidence_id is None else keys[expected.evidence_id])


def _numbered(claim: object) -> object:
    """The oracle compares ids as numbers; allocations and tenure get one that ties with nothing."""
    from dataclasses import replace

    from warehouse.model.entry import Claim

    assert isinstance(claim, Claim)
    return claim if claim.evidence_id is not None else replace(claim, key="1000000")


@pytest.mark.parametrize("seed", range(8))
def test_any_order_batching_and_duplication_gives_the_same_tiling(
    database_url: str, embedded_server: str, seed: int
) -> None:
    from tests.conftest import _fresh_database

    items = random_statements(100 + seed)
    whole = with_fleet(database_url)
    take_in(whole, *items)
    parts = with_fleet(_fresh_database(embedded_server))
    rng = random.Random(seed)
    shuffled = items + rng.sample(items, len(items) // 2)
    rng.shuffle(shuffled)
    while shuffled:
        size = rng.randrange(1, 6)
        take_in(parts, *shuffled[:size], book=rng.random() < 0.7 or len(shuffled) <= size)
        shuffled = shuffled[size:]
    # The last booking takes up what earlier ones deferred: deriving everything again finds nothing to change.
    again = pipeline.book(parts, act("derive"))
    assert (again.closed, again.opened) == (0, 0)
    assert tiling(parts) == tiling(whole)
    assert grouping(parts) == grouping(whole)
    with parts.connect() as connection:
        proofs = prove(connection)
    assert [proof for proof in proofs if not proof.holds] == []


def test_a_late_window_recharges_the_whole_incident(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(engine, said("1", State.DOWN, 2, 100, "a1"), said("2", State.DOWN, 100, 130, "a1", cause=OVERRUN))
    take_in(engine, said("w", State.MAINTENANCE, 1, 5, "a1"))
    causes = rows(goodput(engine, by="cause"))
    assert "unknown/unattributed" not in causes
    assert causes[OVERRUN]["gpu_ms"] == GPUS * 125 * MS_PER_HOUR
    assert grouping(engine) == [(OVERRUN, ["1", "2"])]
    assert not pipeline.book(engine, act("derive")).changed


def test_a_deferred_import_is_booked_by_the_next_one(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(engine, said("1", State.IDLE, 0, 200, "b2"))
    take_in(engine, said("2", State.DOWN, 1, 2, "a1", cause="host/dram"), book=False)
    assert goodput(engine)["provisional"] is True
    assert "down" not in rows(goodput(engine))
    take_in(engine, said("3", State.DOWN, 100, 101, "a1", cause="host/dram"))
    assert rows(goodput(engine))["down"]["gpu_ms"] == 2 * GPUS * MS_PER_HOUR


def test_overlapping_rows_of_one_job_end_when_they_say(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(engine, held("j", 0, 10, "a1/0"), held("j", 0, 20, "a1"))
    assert rows(goodput(engine, by="job"))["j"]["gpu_ms"] == GPUS * 20 * MS_PER_HOUR
    with engine.connect() as connection:
        proofs = prove(connection)
    assert [proof for proof in proofs if not proof.holds] == []


def test_the_latest_fact_of_all_may_have_no_length(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(engine, said("1", State.DOWN, 5, 5, "a1", cause="host/dram"))
    with engine.connect() as connection:
        revision = revisions.latest(connection)
        assert revision is not None
        question = views.ask(connection, revision, None, None)
        assert [i["id"] for i in views.incidents(connection, question)] == [1]
        found = views.incident(connection, question, 1)
    assert found is not None
    assert (found["lost_gpu_ms"], found["gpus"], found["nodes"]) == (0, GPUS, ["a1"])


def test_a_loss_that_is_priced_in_part_says_so(database_url: str) -> None:
    from warehouse.model.rate import RateSpec

    engine = with_fleet(database_url)
    take_in(engine, said("1", State.DOWN, 0, 10, "a1", cause="host/dram"))
    pipeline.load_rates(engine, [RateSpec("list", "H100", "USD", Decimal(3), START, at(4))], act("rates"))
    with engine.connect() as connection:
        revision = revisions.latest(connection)
        assert revision is not None
        (listed,) = views.incidents(connection, views.ask(connection, revision, None, None))
    assert listed["cost_of_loss"] == "48.00"
    assert listed["unpriced_lost_gpu_ms"] == GPUS * 6 * MS_PER_HOUR


def test_deriving_twice_writes_nothing(database_url: str) -> None:
    engine = with_fleet(database_url)
    first = take_in(engine, said("1", State.DOWN, 1, 3, "a1", cause="host/dram"))
    again = pipeline.book(engine, act("derive"))
    assert (again.changed, again.rev) == (False, first.rev)


def test_late_data_rewrites_only_its_day_and_the_old_revision_stays(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(engine, said("1", State.DOWN, 1, 100, "a1", cause="host/dram"))
    before = goodput(engine)
    late = take_in(engine, said("2", State.MAINTENANCE, 24, 30, "b1"))
    assert (late.closed, late.opened) == (1, 2)
    assert goodput(engine, late.rev - 1) == before
    assert goodput(engine) != before


def test_an_open_end_reaches_to_now_and_closing_it_revises(database_url: str) -> None:
    engine = with_fleet(database_url)
    opened = take_in(engine, said("1", State.DOWN, 0, None, "a1", cause="host/dram"))
    assert opened.horizon_ms == NOW
    assert rows(goodput(engine))["down"]["gpu_ms"] == GPUS * 10 * MS_PER_DAY
    closed = take_in(engine, said("1", State.DOWN, 0, 24, "a1", cause="host/dram"))
    assert len(closed.intake.superseded) == 1
    assert rows(goodput(engine))["down"]["gpu_ms"] == GPUS * MS_PER_DAY
    assert rows(goodput(engine, closed.rev - 1))["down"]["gpu_ms"] == GPUS * 10 * MS_PER_DAY
    with pytest.raises(BadInput, match="stored with other content"):
        take_in(engine, said("1", State.DOWN, 0, 48, "a1", cause="host/dram"))


def test_time_behind_the_horizon_is_unknown_and_provisional(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(engine, said("1", State.DOWN, 0, 24, "a1", cause="host/dram"))
    answer = goodput(engine)
    assert answer["provisional"] is True
    assert rows(answer)["unknown"]["gpu_ms"] == 4 * GPUS * 10 * MS_PER_DAY - GPUS * MS_PER_DAY
    for by in views.GROUPINGS:
        grouped = goodput(engine, by=by)
        assert sum(row["gpu_ms"] for row in rows(grouped).values()) == grouped["installed_gpu_ms"], by
        assert grouped["classes"] == answer["classes"], by


def test_partial_loss_splits_between_good_and_unplanned(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(engine, held("j", 0, 24, "a1"), said("1", State.DEGRADED, 0, 24, "a1", lost_ppm=300_000))
    answer = goodput(engine)
    classes = answer["classes"]
    assert isinstance(classes, dict)
    whole = GPUS * MS_PER_DAY
    assert (classes["good"], classes["unplanned"]) == (whole * 7 // 10, whole * 3 // 10)
    assert answer["allocated_gpu_ms"] == whole
    assert answer["goodput_of_allocated"] == "0.7000"
    assert rows(answer)["degraded"]["lost_gpu_ms"] == whole * 3 // 10


def test_allocated_time_is_only_presumed_productive(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(engine, held("j", 0, 24, "a1+a2"), said("1", State.PRODUCTIVE, 0, 12, "a1"))
    answer = goodput(engine)
    # 24 h on eight GPUs less the twelve measured hours on four, of ten days of sixteen.
    presumed = 2 * GPUS * MS_PER_DAY - GPUS * 12 * MS_PER_HOUR
    assert answer["presumed_share"] == f"{presumed / (4 * GPUS * 10 * MS_PER_DAY):.4f}"
    assert rows(goodput(engine, by="tenant"))["team-a"]["gpu_ms"] == 2 * GPUS * MS_PER_DAY
    assert rows(goodput(engine, by="job"))["j"]["gpu_ms"] == 2 * GPUS * MS_PER_DAY


def test_a_fault_inside_a_window_is_planned_and_its_overrun_is_not(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(engine, said("w", State.MAINTENANCE, 2, 6, "a1"), said("1", State.DOWN, 4, 8, "a1"))
    causes = rows(goodput(engine, by="cause"))
    assert causes["operations/planned_maintenance"]["gpu_ms"] == GPUS * 4 * MS_PER_HOUR
    assert causes["operations/unplanned_maintenance"]["gpu_ms"] == GPUS * 2 * MS_PER_HOUR


def test_deferred_words_leave_entries_and_incidents_in_step(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(engine, said("1", State.DOWN, 0, 1, "a1", cause="power/psu"), said("3", State.DOWN, 9, 10, "a1"))
    before = goodput(engine)
    waiting = take_in(
        engine, said("1", State.DOWN, 5, 6, "a1", cause="power/psu"), said("w", State.MAINTENANCE, 8, 9.5, "a1"),
        book=False, revise=True,
    )  # fmt: skip
    with engine.connect() as connection:
        assert [proof for proof in prove(connection) if not proof.holds] == []
    assert goodput(engine, waiting.rev)["provisional"] is True
    assert goodput(engine, waiting.rev - 1) == before
    pipeline.book(engine, act("derive"))
    assert goodput(engine, waiting.rev)["provisional"] is True
    assert grouping(engine) == [("power/psu", ["1"]), (OVERRUN, ["3"])]
    with engine.connect() as connection:
        assert [proof for proof in prove(connection) if not proof.holds] == []


@pytest.mark.parametrize("order", [1, -1])
def test_open_and_closed_in_one_batch_is_closed(database_url: str, order: int) -> None:
    engine = with_fleet(database_url)
    words = [
        said("1", State.DOWN, 0, None, "a1", cause="host/dram"),
        said("1", State.DOWN, 0, 1, "a1", cause="host/dram"),
    ]
    done = take_in(engine, *words[::order])
    assert (len(done.intake.evidence), done.intake.repeated) == (1, 1)
    assert rows(goodput(engine))["down"]["gpu_ms"] == GPUS * MS_PER_HOUR


@pytest.mark.parametrize("order", [1, -1])
def test_a_stored_open_word_is_closed_by_a_file_that_says_both(database_url: str, order: int) -> None:
    engine = with_fleet(database_url)
    open_words = [said("1", State.DOWN, 0, None, "a1", cause="host/dram"), held("j", 0, None, "a2")]
    closed_words = [said("1", State.DOWN, 0, 1, "a1", cause="host/dram"), held("j", 0, 2, "a2")]
    take_in(engine, *open_words)
    take_in(engine, *[*open_words, *closed_words][::order])
    assert rows(goodput(engine))["down"]["gpu_ms"] == GPUS * MS_PER_HOUR
    assert rows(goodput(engine, by="job"))["j"]["gpu_ms"] == 2 * GPUS * MS_PER_HOUR
    assert not pipeline.book(engine, act("derive")).changed
    fresh = [said("2", State.DOWN, 50, None, "b1"), held("k", 50, None, "b2"), said("2", State.DOWN, 50, 51, "b1")]
    take_in(engine, *[*fresh, held("k", 50, 52, "b2")][::order])
    assert rows(goodput(engine, by="job"))["k"]["gpu_ms"] == 2 * GPUS * MS_PER_HOUR


def test_rows_of_the_cost_of_loss_sum_to_it(database_url: str) -> None:
    from warehouse.model.rate import RateSpec

    engine = with_fleet(database_url)
    minute = 1 / 60
    take_in(
        engine, said("1", State.DOWN, 0, 2 * minute, "a1/0"), said("2", State.IDLE, 2 * minute, 4 * minute, "a1/0"),
    )  # fmt: skip
    # A third of a cent each: together with the idle time it would round to a cent, the loss alone to none.
    pipeline.load_rates(engine, [RateSpec("list", "H100", "USD", Decimal("0.1"), START)], act("rates"))
    for by, charged in (("class", ("unplanned", "planned", "overhead")), ("state", ("down",))):
        answer = goodput(engine, by=by)
        costs = [Decimal(str(rows(answer)[key]["cost_of_loss"])) for key in charged]
        assert str(sum(costs)) == answer["cost_of_loss"] == "0.00", by
