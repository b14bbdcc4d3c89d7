"""The judgement of the soak finds what it is there to find."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest

from benchmarks.flat import Census, Count, judge
from benchmarks.processes import Size, family, size

STORM = 0.25
ROLES = ((10, "parent"), (11, "driver process"), (12, "event process"))


def day(change: Callable[[float, Size], Size]) -> Census:
    """Four hundred counts of three processes; `change` says what becomes of the driver process as the day goes."""
    rng = random.Random(1)
    census = Census(10, last={pid for pid, _ in ROLES})
    for step in range(401):
        progress = step / 400
        for pid, role in ROLES:
            usual = Size(30.0 + rng.random() * 0.2, 20.0, 6, 3)
            census.counts.append(Count(progress, role, pid, change(progress, usual) if pid == 11 else usual))
    return census


def wrong(census: Census) -> dict[str, tuple[str, ...]]:
    return {one.role: one.wrong for one in judge(census, STORM)}


def test_a_quiet_day_is_flat() -> None:
    found = wrong(day(lambda progress, usual: usual))
    assert found == {"parent": (), "driver process": (), "event process": ()}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda progress, one: Size(one.resident_mb + 4 * progress, 20.0, 6, 3), "grew"),
        (lambda progress, one: Size(one.resident_mb + 4 * progress, 20.0, 6, 3), "a day"),
        (lambda progress, one: Size(one.resident_mb + 5 * (progress > 0.8), 20.0, 6, 3), "grew"),
        (lambda progress, one: Size(one.resident_mb, 20.0, 6 + int(progress > 0.7), 3), "7 open files, 6 before"),
        (lambda progress, one: Size(one.resident_mb, 20.0, 6, 3 + int(progress * 8)), "threads"),
    ],
)
def test_growth_is_found_and_blamed_on_its_process(change: Callable[[float, Size], Size], word: str) -> None:
    found = wrong(day(change))
    assert any(word in line for line in found.pop("driver process"))
    assert set(found.values()) == {()}


def test_what_comes_and_goes_during_the_storm_is_not_judged() -> None:
    def storm(progress: float, one: Size) -> Size:
        return Size(one.resident_mb + 30 * (progress < STORM), 20.0, 6 + int(progress < STORM) * 20, 3)

    assert set(wrong(day(storm)).values()) == {()}


def test_a_process_that_was_replaced_after_the_storm_is_told() -> None:
    census = day(lambda progress, usual: usual)
    census.counts = [count for count in census.counts if count.pid != 11 or count.progress > 0.6]
    assert wrong(census)["driver process"] == ("the driver process was started anew after the storm",)


def test_a_process_that_is_missing_at_the_end_ends_the_run() -> None:
    census = day(lambda progress, usual: usual)
    census.last.discard(12)
    with pytest.raises(SystemExit, match="processes at the end"):
        judge(census, STORM)


def test_a_census_reads_real_processes() -> None:
    mine = os.getpid()
    one = size(mine)
    assert family(mine)[0] == mine
    assert one.resident_mb > one.proportional_mb > 1 and one.open_files >= 3 and one.threads >= 1
