"""Shared GPUs on PostgreSQL: who holds what, each figure worked out by hand."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from sqlalchemy import Engine, text

from tests.shares.held import contested, part, proven, tiles
from tests.store.ledgers import act, at, goodput, prove, said, take_in, with_fleet
from tests.store.ledgers import tiling as words_of
from warehouse import booking, pipeline
from warehouse.errors import BadInput
from warehouse.model.evidence import Allocation
from warehouse.model.state import State
from warehouse.model.time import MS_PER_HOUR
from warehouse.store import revisions

P = "productive"
HOUR_GPU_MS = MS_PER_HOUR


def test_two_halves_fill_a_gpu(any_database_url: str) -> None:
    engine = with_fleet(any_database_url)
    take_in(engine, part("0.5", "j", 0, 4, "a1/0"), part("0.5", "k", 0, 4, "a1/0"))
    # Held as a whole: held_ppm is None, and both are named.
    assert tiles(engine) == [(0, 0, 4, P, "claim", "j", None, ("j/1", "k/1"))]
    assert proven(engine) is None
    assert contested(engine) == []


def test_a_share_alone_holds_what_it_says(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(engine, part("0.3", "j", 0, 4, "a1/0"))
    assert tiles(engine) == [(0, 0, 4, P, "claim", "j", 300_000, ("j/1",))]
    assert proven(engine) is None


def test_when_one_of_two_quarters_ends_a_quarter_is_held(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(engine, part("0.25", "j", 0, 2, "a1/0"), part("0.25", "k", 0, 4, "a1/0"))
    assert tiles(engine) == [
        (0, 0, 2, P, "claim", "j", 500_000, ("j/1", "k/1")),
        (0, 2, 4, P, "claim", "k", 250_000, ("k/1",)),
    ]
    assert proven(engine) is None


def test_shares_above_the_whole_conflict_only_while_they_overlap(database_url: str) -> None:
    engine = with_fleet(database_url)
    done = take_in(engine, part("0.6", "j", 0, 3, "a1/0"), part("0.6", "k", 2, 5, "a1/0"))
    assert tiles(engine) == [
        (0, 0, 2, P, "claim", "j", 600_000, ("j/1",)),
        (0, 2, 3, "unknown", "conflict", None, None, ("j/1", "k/1")),
        (0, 3, 5, P, "claim", "k", 600_000, ("k/1",)),
    ]
    assert done.contested == HOUR_GPU_MS
    (stretch,) = contested(engine)
    assert (stretch.scope, stretch.start_ms, stretch.end_ms) == (("a1/0",), at(2), at(3))
    assert (stretch.jobs, stretch.claimed_ppm) == ((("j", 600_000), ("k", 600_000)), 1_200_000)
    assert proven(engine) is None


@pytest.mark.parametrize("first", ["j", "k"])
def test_two_whole_jobs_contest_an_hour_whoever_began_first(database_url: str, first: str) -> None:
    engine = with_fleet(database_url)
    starts = {"j": 0, "k": 0, first: -2}
    rows = [part("1", job, 2 + start, 3 if start else 5, "a1/0") for job, start in starts.items()]
    assert take_in(engine, *rows).contested == 60 * 60_000  # 60 GPU-minutes
    other = "k" if first == "j" else "j"
    assert tiles(engine) == [
        (0, 0, 2, P, "claim", first, None, ()),
        (0, 2, 3, "unknown", "conflict", None, None, ("j/1", "k/1")),
        (0, 3, 5, P, "claim", other, None, ()),
    ]
    by_state = {row["key"]: row["gpu_ms"] for row in goodput(engine)["rows"]}  # type: ignore[attr-defined]
    assert by_state == {P: 4 * HOUR_GPU_MS, "unknown": 16 * 240 * MS_PER_HOUR - 4 * HOUR_GPU_MS}


def test_a_fault_is_the_whole_gpus_and_keeps_its_sharers(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(
        engine,
        part("0.5", "j", 0, 4, "a1/0"),
        part("0.25", "k", 0, 4, "a1/0"),
        part("1", "l", 0, 4, "a1/1"),
        part("1", "m", 0, 4, "a1/1"),
        said("1", State.DOWN, 1, 2, "a1/0+a1/1", cause="host/dram"),
    )
    assert tiles(engine, slots=2) == [
        (0, 0, 1, P, "claim", "j", 750_000, ("j/1", "k/1")),
        (0, 1, 2, "down", "claim", "j", 750_000, ("j/1", "k/1")),
        (0, 2, 4, P, "claim", "j", 750_000, ("j/1", "k/1")),
        # A contested GPU that is down is down, and still nobody's.
        (1, 0, 1, "unknown", "conflict", None, None, ("l/1", "m/1")),
        (1, 1, 2, "down", "claim", None, None, ("l/1", "m/1")),
        (1, 2, 4, "unknown", "conflict", None, None, ("l/1", "m/1")),
    ]
    (stretch,) = contested(engine)
    assert (stretch.scope, stretch.gpu_ms) == (("a1/1",), 4 * HOUR_GPU_MS)
    with engine.connect() as connection:
        assert all(proof.holds for proof in prove(connection))


def test_overlapping_rows_of_one_job_are_no_conflict_and_the_largest_counts(database_url: str) -> None:
    engine = with_fleet(database_url)
    done = take_in(
        engine,
        part("0.5", "j", 0, 4, "a1/0"),
        part("0.75", "j", 1, 3, "a1/0", attempt=2),
        part("0.25", "k", 0, 4, "a1/0"),
    )
    assert done.contested == 0
    # Never 1.25: of j's two rows only the larger counts, so that from 1 to 3 the GPU is held whole.
    assert tiles(engine) == [
        (0, 0, 1, P, "claim", "j", 750_000, ("j/1", "k/1")),
        (0, 1, 3, P, "claim", "k", None, ("j/2", "k/1")),
        (0, 3, 4, P, "claim", "j", 750_000, ("j/1", "k/1")),
    ]
    assert proven(engine) is None


# Six jobs on three GPUs: filled, in part, contested, ended and begun within each other.
ROWS = (
    part("0.5", "j", 0, 30, "a1/0+a1/1"),
    part("0.5", "k", 5, 28, "a1/0"),
    part("0.25", "l", 6, None, "a1/1"),
    part("0.6", "m", 10, 20, "a1/1"),
    part("1", "n", 0, 12, "a1/2"),
    part("1", "o", 11, 26, "a1/2"),
    part("0.3", "n", 12, 26, "a1/2", attempt=2),
)


def _by_one(engine_url: str, rows: list[Allocation]) -> list[object]:
    engine = with_fleet(engine_url)
    for row in rows:
        take_in(engine, row)
    return _said_of(engine)


def _said_of(engine: Engine) -> list[object]:
    stretches = [(c.scope, c.start_ms, c.end_ms, c.jobs) for c in contested(engine)]
    return [tiles(engine, slots=4), words_of(engine), stretches]


def test_late_rows_give_what_all_at_once_gives(database_url: str, embedded_server: str) -> None:
    from tests.conftest import _fresh_database

    engine = with_fleet(database_url)
    take_in(engine, *ROWS)
    whole = _said_of(engine)
    # a1/1: 0.5 + 0.25 + 0.6 = 1.35 from 10 to 20. a1/2: n and o whole from 11 to 12, then 1.3 until 26.
    assert [(c.scope, c.start_ms, c.end_ms) for c in contested(engine)] == [
        (("a1/1",), at(10), at(20)),
        (("a1/2",), at(11), at(12)),
        (("a1/2",), at(12), at(26)),
    ]
    for seed in range(2):
        shuffled = random.Random(seed).sample(ROWS, len(ROWS))
        assert _by_one(_fresh_database(embedded_server), shuffled) == whole
    assert proven(engine) is None


def test_deriving_again_and_saying_again_change_nothing(database_url: str) -> None:
    engine = with_fleet(database_url)
    done = take_in(engine, *ROWS)
    assert not take_in(engine, *reversed(ROWS)).changed
    assert not pipeline.book(engine, act("derive")).changed
    with engine.connect() as connection:
        revision = revisions.latest(connection)
        assert revision is not None and revision.rev == done.rev
        days, differs = booking.differences(connection, revision)
        assert (days > 1, differs) == (True, None)


def test_a_share_is_corrected_by_revision_and_the_past_stands(database_url: str) -> None:
    engine = with_fleet(database_url)
    before = take_in(engine, part("1", "j", 0, 2, "a1/0"), part("0.5", "k", 0, 2, "a1/0"))
    was = tiles(engine)
    assert was == [(0, 0, 2, "unknown", "conflict", None, None, ("j/1", "k/1"))]
    with pytest.raises(BadInput, match="'j' is stored with other content in share; --revise records a correction"):
        take_in(engine, part("0.5", "j", 0, 2, "a1/0"))
    after = take_in(engine, part("0.5", "j", 0, 2, "a1/0"), revise=True)
    assert (after.contested, after.rev) == (0, before.rev + 1)
    assert tiles(engine) == [(0, 0, 2, P, "claim", "j", None, ("j/1", "k/1"))]
    assert tiles(engine, before.rev) == was
    assert [c.gpu_ms for c in contested(engine, before.rev)] == [2 * HOUR_GPU_MS]
    assert contested(engine) == []
    assert (proven(engine), proven(engine, before.rev)) == (None, None)


def test_one_file_that_says_two_shares_is_refused(database_url: str) -> None:
    engine = with_fleet(database_url)
    with pytest.raises(BadInput, match="item 2, column job: 'j' stands in an earlier row with another end, share"):
        take_in(engine, part("0.5", "j", 0, 2, "a1/0"), part("0.4", "j", 0, 3, "a1/0"))


def test_an_end_alone_closes_a_share(database_url: str) -> None:
    engine = with_fleet(database_url)
    running = part("0.5", "j", 0, None, "a1/0")
    take_in(engine, running)
    assert take_in(engine, replace(running, end_ms=at(3))).intake.superseded_allocations
    assert tiles(engine) == [(0, 0, 3, P, "claim", "j", 500_000, ("j/1",))]


ALTERED = {
    "another part": "update ledger_entry set held_ppm = 400000 where held_ppm = 500000",
    "a holder too many": "update ledger_entry set sharers = sharers || 4::bigint where held_ppm = 500000",
    "the same job twice": "update ledger_entry set sharers = array[1, 3] where held_ppm = 500000",
    "no sharer at all": "update ledger_entry set sharers = null where rule = 'conflict'",
    "a share without its mark": "update ledger_entry set held_ppm = null, sharers = null where held_ppm = 500000",
    "a conflict below the whole": "update ledger_entry set rule = 'conflict', state = 'unknown', lost_ppm = 0, "
    "basis = 'none', allocation_id = null, held_ppm = null where held_ppm = 500000",
    "a holder of contested time": "update ledger_entry set allocation_id = 2 where rule = 'conflict'",
    "a larger share": "update allocation set share_ppm = 700000 where id = 1",
    "another time": "update allocation set end_at = start_at where id = 1",
}


@pytest.mark.parametrize("what", ALTERED)
def test_the_proof_sees_what_was_altered(database_url: str, what: str) -> None:
    engine = with_fleet(database_url)
    take_in(
        engine,
        part("0.5", "j", 0, 2, "a1/0"),
        part("1", "k", 0, 2, "a1/1"),
        part("0.5", "j", 0, 2, "a1/0", attempt=2),
        part("0.75", "l", 0, 2, "a1/1"),
    )
    assert [t[3:7] for t in tiles(engine, slots=2)] == [
        (P, "claim", "j", 500_000),
        ("unknown", "conflict", None, None),
    ]
    assert proven(engine) is None
    with engine.begin() as connection:
        connection.execute(text("set session_replication_role = 'replica'"))
        assert connection.execute(text(ALTERED[what])).rowcount == 1
    assert (proven(engine) or "").startswith("slot ")
