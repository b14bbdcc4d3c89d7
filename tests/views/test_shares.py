"""Shared GPUs: what no share covers is idle, several jobs split what they hold, a conflict is nobody's."""

from __future__ import annotations

from decimal import Decimal

from sqlalchemy import Engine

from tests.views.ledgers import START, add_rates, goodput, note, rows, share, tile, two_sites, write
from warehouse import views
from warehouse.model.evidence import Evidence
from warehouse.model.rate import RateSpec
from warehouse.model.state import State
from warehouse.model.time import MS_PER_HOUR

HOURS = 10


def shared(url: str) -> Engine:
    """Ten hours of four GPUs.

    GPU 0 is held to 0.3 by a job, its first hour degraded by a half; GPU 1 by two jobs to a half each; Berlin's first
    is claimed by more than there is of it; its last is under maintenance that was declared late for four hours, then
    down while a job holds a quarter of it.
    """
    engine = two_sites(url)
    part, half, other, quarter = note(
        engine,
        share("aa", 300_000, (0, 1)),
        share("bb", 500_000, (1, 2)),
        share("cc", 500_000, (1, 2)),
        share("dd", 250_000, (9, 10)),
    )
    degraded, plan, down = note(
        engine,
        Evidence("dcgm", "1", START, START + MS_PER_HOUR, "n1/0", ((0, 1),), State.DEGRADED, lost_ppm=500_000),
        Evidence(
            "ops", "2", START, START + 4 * MS_PER_HOUR, "b1/1", ((9, 10),), State.MAINTENANCE, declared_ms=START + 1
        ),
        Evidence("ops", "3", START + 4 * MS_PER_HOUR, START + 10 * MS_PER_HOUR, "b1/1", ((9, 10),), State.DOWN),
    )
    thirty = {"attempt_id": part, "held_ppm": 300_000, "sharers": (part,)}
    write(
        engine,
        [
            tile((0, 1), 0, 1, State.DEGRADED, evidence_id=degraded, **thirty | {"lost_ppm": 500_000}),
            tile((0, 1), 1, HOURS, State.PRODUCTIVE, basis="presumed", **thirty),
            tile((1, 2), 0, HOURS, State.PRODUCTIVE, basis="presumed", attempt_id=half, sharers=(half, other)),
            tile((8, 9), 0, HOURS, State.UNKNOWN, rule="conflict", sharers=(half, other)),
            tile((9, 10), 0, 4, State.MAINTENANCE, evidence_id=plan),
            tile((9, 10), 4, HOURS, State.DOWN, evidence_id=down, attempt_id=quarter, held_ppm=250_000,
                 sharers=(quarter,)),
        ],
    )  # fmt: skip
    add_rates(engine, RateSpec("list", "H100", "USD", Decimal(2), START))
    return engine


def test_what_no_share_covers_is_idle(database_url: str) -> None:
    engine = shared(database_url)
    answer = goodput(engine)
    hours = {key: row["gpu_ms"] / MS_PER_HOUR for key, row in rows(answer).items()}
    # GPU 0: 0.3 h degraded, 2.7 h productive, 7 h idle; GPU 1: 10 h productive.
    assert hours == {"degraded": 0.3, "productive": 12.7, "idle": 7, "unknown": 10, "maintenance": 4, "down": 6}
    assert answer["installed_gpu_ms"] == 40 * MS_PER_HOUR
    assert answer["allocated_gpu_ms"] == 13 * MS_PER_HOUR
    classes = {name: ms / MS_PER_HOUR for name, ms in answer["classes"].items()}
    assert classes == {"good": 12.85, "overhead": 0, "unplanned": 6.15, "planned": 4, "unused": 7, "unknown": 10}
    assert answer["goodput_of_installed"] == "0.3212"  # 12.85 / 40 = 0.32125, half to even
    assert answer["goodput_of_allocated"] == "0.9885"  # 12.85 / 13
    assert answer["presumed_share"] == "0.3175"  # 12.7 / 40
    assert answer["availability"] == "0.7500"  # 30 / 40
    assert answer["availability_excluding_planned"] == "0.8500"  # 34 / 40
    assert answer["contested_gpu_ms"] == 10 * MS_PER_HOUR
    assert answer["declared_late_gpu_ms"] == 4 * MS_PER_HOUR


def test_holders_split_what_they_share(database_url: str) -> None:
    engine = shared(database_url)
    for by, names in (("tenant", "team-a team-b team-c team-d"), ("job", "aa bb cc dd")):
        a, b, c, d = names.split()
        hours = {key: row["gpu_ms"] / MS_PER_HOUR for key, row in rows(goodput(engine, by)).items()}
        # The quarter of a GPU that is down while a job holds it; the rest of the hours are nobody's.
        assert hours == {a: 3, b: 5, c: 5, d: 1.5, "none": 25.5}


def test_every_grouping_gives_the_same_headline(database_url: str) -> None:
    engine = shared(database_url)
    whole = goodput(engine)
    # 6 h down, 4 h maintenance and 0.15 h of degraded: 10.15 GPU-hours at 2 USD in New York alone.
    assert (whole["currency"], whole["cost_of_loss"]) == ("USD", "0.30")
    assert whole["unpriced_gpu_ms"] == 20 * MS_PER_HOUR
    for by in views.GROUPINGS:
        answer = goodput(engine, by)
        assert sum(row["gpu_ms"] for row in answer["rows"]) == answer["installed_gpu_ms"], by
        assert {**answer, "rows": None} == {**whole, "rows": None}, by


def test_parts_of_a_gpu_ms_round_to_the_whole(database_url: str) -> None:
    engine = two_sites(database_url)
    (third,) = note(engine, share("aa", 333_333, (0, 1)))
    held = {"basis": "presumed", "attempt_id": third, "held_ppm": 333_333, "sharers": (third,)}
    ms = 1 / MS_PER_HOUR
    write(
        engine,
        [
            tile((0, 1), 0, ms, State.PRODUCTIVE, **held),
            tile((1, 2), 0, ms, State.UNKNOWN),
            tile((8, 10), 0, ms, State.UNKNOWN),
        ],
    )
    answer = goodput(engine, start=START, end=START + 1)
    assert {key: row["gpu_ms"] for key, row in rows(answer).items()} == {"productive": 0, "idle": 1, "unknown": 3}
    assert answer["goodput_of_installed"] == "0.0833"  # 0.333333 / 4, not 0 / 4
