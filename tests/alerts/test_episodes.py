"""What tellings come to: rule R3 case by case, and its laws over generated tellings. Times are small numbers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warehouse.alerts.episodes import read_episodes
from warehouse.model.alert import Ending, EpisodeState, Reading, Told

OPEN, CLOSED, PART, QUARANTINED = EpisodeState


def told(start: int, proven: int | None = None, *ends: tuple[int, int]) -> Told:
    """A beginning, its last proof, and ends as (end, first receipt)."""
    return Told(start, proven, tuple(Ending(*end) for end in ends))


def brief(rows: Iterable[Told]) -> list[tuple[int, int | None, EpisodeState]]:
    return [(reading.starts_ms, reading.ends_ms, reading.state) for reading in read_episodes(rows)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], []),
        ([told(10, 12)], [(10, None, OPEN)]),
        ([told(10, None, (20, 21))], [(10, 20, CLOSED)]),  # resolved before firing, or its firing was never sent
        ([told(10, 12, (20, 21))], [(10, 20, CLOSED)]),
        ([told(10, 12, (20, 21), (30, 31))], [(10, 30, CLOSED)]),  # a later end extends
        ([told(10, 12, (30, 31), (20, 35))], [(10, 30, CLOSED)]),  # an earlier one does not shorten
        ([told(10, 40, (20, 21))], [(10, 20, CLOSED)]),  # a stale sibling
        ([told(10, 12), told(30, 31)], [(10, 30, CLOSED), (30, None, OPEN)]),  # superseded
        ([told(10, 30), told(30, 31)], [(10, None, OPEN), (30, None, PART)]),  # still proven then: one episode
        ([told(10, 32), told(30, 31, (40, 41))], [(10, 40, CLOSED), (30, 40, PART)]),
        ([told(10, 45), told(30, 31, (40, 41))], [(10, None, OPEN), (30, 40, PART)]),  # the last word is that it fires
        ([told(10, 12, (20, 21)), told(20, 22)], [(10, 20, CLOSED), (20, None, OPEN)]),  # touching is not overlapping
        ([told(10, 12, (40, 41)), told(30, 31)], [(10, 40, CLOSED), (30, None, PART)]),
        ([told(10, 12, (40, 41)), told(30, 50)], [(10, None, OPEN), (30, None, PART)]),
        ([told(10, 12), told(20, None, (20, 21))], [(10, 20, CLOSED), (20, 20, PART)]),  # Grafana's end
        ([told(10, 12), told(25, None, (20, 21))], [(10, 20, CLOSED), (25, 20, PART)]),
        ([told(20, None, (20, 21))], [(20, 20, QUARANTINED)]),  # nothing was open
        ([told(20, None, (20, 21)), told(30, 31)], [(20, 20, QUARANTINED), (30, None, OPEN)]),
        ([told(10, 12, (15, 16)), told(20, None, (20, 21))], [(10, 15, CLOSED), (20, 20, QUARANTINED)]),
        ([told(10, 12, (30, 31)), told(20, None, (20, 21))], [(10, 30, CLOSED), (20, 20, PART)]),
        (
            [told(10, 12), told(20, None, (20, 21)), told(30, 31), told(40, None, (40, 41))],
            [(10, 20, CLOSED), (20, 20, PART), (30, 40, CLOSED), (40, 40, PART)],
        ),
    ],
    ids=str,
)
def test_rule_r3(rows: list[Told], expected: list[tuple[int, int | None, EpisodeState]]) -> None:
    assert brief(rows) == expected
    assert brief(reversed(rows)) == expected


def flags(*rows: Told) -> list[set[str]]:
    names = ("skewed", "superseded", "truncated", "stale_sibling")
    return [{name for name in names if getattr(reading, name)} for reading in read_episodes(rows)]


def test_flags() -> None:
    assert flags(told(10, 40, (20, 21))) == [{"stale_sibling"}]
    assert flags(told(10, 21, (20, 21))) == [set()]
    assert flags(told(10, 12), told(30, 31)) == [{"superseded"}, set()]
    assert flags(told(10, 12, (5, 13))) == [{"skewed"}]  # it fires, and ends before it begins: some clock is wrong
    assert flags(Told(10, 12, (), skewed=True), told(11, 12)) == [{"skewed"}, set()]
    assert flags(told(10, 12), Told(11, 12, (), skewed=True)) == [{"skewed"}, {"skewed"}]
    assert flags(Told(10, 12, (), truncated=True)) == [{"truncated"}]


def test_a_beginning_is_told_once() -> None:
    with pytest.raises(ValueError, match="told twice"):
        read_episodes([told(10, 12), told(10, 13)])


TELLING = st.builds(
    lambda start, proven, ends: told(start, proven, *ends),
    st.integers(0, 30),
    st.none() | st.integers(0, 60),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 60)), max_size=3, unique_by=lambda end: end[0]),
).filter(lambda row: row.proven_ms is not None or bool(row.endings))
TELLINGS = st.lists(TELLING, max_size=8, unique_by=lambda row: row.starts_ms)


@settings(max_examples=500, deadline=None)
@given(TELLINGS, st.randoms(use_true_random=False))
def test_laws(rows: list[Told], rng: object) -> None:
    readings = read_episodes(rows)
    # Each beginning stands in exactly one reading, whatever the order.
    assert [reading.starts_ms for reading in readings] == sorted(row.starts_ms for row in rows)
    shuffled = list(rows)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert read_episodes(shuffled) == readings
    heads = [reading for reading in readings if reading.state in (OPEN, CLOSED)]
    never_overlap(heads)
    starts = {reading.starts_ms for reading in heads}
    said = {ending.ends_ms for row in rows for ending in row.endings}
    for reading in readings:
        assert (reading.state is PART) == (reading.head_ms is not None)
        assert reading.head_ms is None or reading.head_ms in starts
        # Nothing is invented: an end was said, or it is the next beginning and says so.
        if reading.state is CLOSED:
            assert reading.superseded or reading.ends_ms in said
        if reading.state is QUARANTINED:
            assert reading.ends_ms is not None and reading.ends_ms <= reading.starts_ms


def never_overlap(heads: list[Reading]) -> None:
    for before, after in pairwise(heads):
        assert before.ends_ms is not None, "only the last is open"
        assert before.starts_ms < before.ends_ms <= after.starts_ms


@settings(max_examples=300, deadline=None)
@given(TELLINGS, st.integers(0, 3), st.integers(0, 60))
def test_a_repeated_end_says_nothing(rows: list[Told], which: int, later: int) -> None:
    """An end that is not the last of its beginning changes nothing, when it is not backward."""
    before = read_episodes(rows)
    more = []
    for row in rows:
        own = [ending.ends_ms for ending in row.endings if ending.ends_ms > row.starts_ms]
        extra = tuple(Ending(end, later) for end in sorted(own)[:-1][:which])
        more.append(Told(row.starts_ms, row.proven_ms, (*row.endings, *extra)))
    assert read_episodes(more) == before
