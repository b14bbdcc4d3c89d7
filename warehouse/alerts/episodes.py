"""From what was said of one alert to its episodes: a pure function, the same for any order and repetition of tellings.

Laws, for all tellings of one alert: episodes never overlap; each beginning that was said stands in exactly one reading;
a telling that only repeats what others say changes nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from warehouse.model.alert import Ending, EpisodeState, Reading, Told


def read_episodes(told: Iterable[Told]) -> list[Reading]:
    """Gives a reading for each beginning, earliest first.

    - A firing one is open until an end is said; of several ends the latest holds.
    - A later beginning while one is open belongs to the same episode if the earlier was still said to fire then;
      otherwise the end of the earlier was lost, and it is superseded.
    - An end at or before its own beginning closes the episode that was open before; with none it is quarantined.

    Raises:
        ValueError: when a beginning is told twice; put its tellings together first.
    """
    rows = sorted(told, key=lambda row: row.starts_ms)
    if len({row.starts_ms for row in rows}) != len(rows):
        raise ValueError("a beginning is told twice")
    proper, ends, lone = _placed(rows)
    runs = _runs(proper, ends)
    heads = {row.starts_ms: run for run in runs for row in run.rows}
    readings = [_of_proper(row, heads[row.starts_ms], lone) for row in proper]
    known = {reading.starts_ms for reading in readings}
    for row in rows:
        if row.starts_ms not in known:
            readings.append(_of_backward(row, lone, heads))
    return sorted(readings, key=lambda reading: reading.starts_ms)


def backward_ends(told: Told) -> list[Ending]:
    """Gives the ends that lie at or before their own beginning, as Grafana writes them."""
    return [ending for ending in told.endings if ending.ends_ms <= told.starts_ms]


@dataclass(slots=True)
class _Lone:
    """Where backward ends went: by (beginning, end) the beginning that each closed, None where it closed nothing."""

    closed: dict[tuple[int, int], int | None] = field(default_factory=dict)

    def unplaced(self, row: Told) -> bool:
        return any(self.closed[row.starts_ms, ending.ends_ms] is None for ending in backward_ends(row))


@dataclass(slots=True)
class _Run:
    """Beginnings that are one episode so far."""

    rows: list[Told] = field(default_factory=list)
    best: Ending | None = None  # the latest end that was said of any of them
    proven_ms: int | None = None
    endless_ms: int | None = None  # the last proof of those whose own end was never said
    superseded_ms: int | None = None

    @property
    def open(self) -> bool:
        """Tells whether the last word is that it fires: no end was said, or one without an end was proven since."""
        return self.best is None or (self.endless_ms is not None and self.endless_ms > self.best.received_ms)

    def takes(self, row: Told) -> bool:
        """Tells whether a later beginning lies inside this episode."""
        if self.open:
            return self.proven_ms is not None and self.proven_ms >= row.starts_ms
        assert self.best is not None
        return row.starts_ms < self.best.ends_ms

    def add(self, row: Told, end: Ending | None) -> None:
        self.rows.append(row)
        self.proven_ms = _later(self.proven_ms, row.proven_ms)
        if end is None:
            self.endless_ms = _later(self.endless_ms, row.proven_ms)
        elif self.best is None or end.ends_ms > self.best.ends_ms:
            self.best = end


def _later(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)


def _placed(rows: Sequence[Told]) -> tuple[list[Told], dict[int, Ending], _Lone]:
    """Gives the rows that have a length, the end of each that has one, and where backward ends went."""
    ends: dict[int, Ending] = {}
    for row in rows:
        own = [ending for ending in row.endings if ending.ends_ms > row.starts_ms]
        if own:
            last_ms = max(ending.ends_ms for ending in own)
            ends[row.starts_ms] = Ending(last_ms, min(e.received_ms for e in own if e.ends_ms == last_ms))
    proper = [row for row in rows if row.proven_ms is not None or row.starts_ms in ends]
    starts = [row.starts_ms for row in proper]
    lone = _Lone()
    backward = sorted((e.ends_ms, row.starts_ms, e.received_ms) for row in rows for e in backward_ends(row))
    for ends_ms, starts_ms, received_ms in backward:
        before = bisect_left(starts, ends_ms) - 1
        target_ms = starts[before] if before >= 0 else None
        if target_ms is not None and target_ms not in ends:
            ends[target_ms] = Ending(ends_ms, received_ms)
        elif target_ms is not None and ends_ms > ends[target_ms].ends_ms:
            target_ms = None
        lone.closed[starts_ms, ends_ms] = target_ms
    return proper, ends, lone


def _runs(proper: Sequence[Told], ends: dict[int, Ending]) -> list[_Run]:
    runs: list[_Run] = []
    for row in proper:
        if not runs or not runs[-1].takes(row):
            if runs and runs[-1].open:
                runs[-1].superseded_ms = row.starts_ms
            runs.append(_Run())
        runs[-1].add(row, ends.get(row.starts_ms))
    return runs


def _of_proper(row: Told, run: _Run, lone: _Lone) -> Reading:
    head = run.rows[0]
    # An end before its own beginning, said of one that also fires, closes nothing of it: some clock is wrong.
    skewed = row.skewed or lone.unplaced(row)
    if row is not head:
        return _part(row, head.starts_ms, skewed)
    closed = not run.open or run.superseded_ms is not None
    ends_ms = run.superseded_ms if run.open else run.best.ends_ms if run.best else None
    return Reading(
        starts_ms=row.starts_ms,
        ends_ms=ends_ms,
        state=EpisodeState.CLOSED if closed else EpisodeState.OPEN,
        head_ms=None,
        proven_ms=row.proven_ms,
        skewed=skewed or any(part.skewed for part in run.rows),
        superseded=run.superseded_ms is not None,
        truncated=row.truncated,
        stale_sibling=not run.open and run.best is not None and (run.proven_ms or 0) > run.best.received_ms,
    )


def _of_backward(row: Told, lone: _Lone, heads: dict[int, _Run]) -> Reading:
    """Reads a beginning of which only backward ends were said."""
    last_ms = max(ending.ends_ms for ending in row.endings)
    if not lone.unplaced(row):
        target_ms = lone.closed[row.starts_ms, last_ms]
        assert target_ms is not None
        return replace(_part(row, heads[target_ms].rows[0].starts_ms, row.skewed), ends_ms=last_ms)
    return Reading(
        row.starts_ms, last_ms, EpisodeState.QUARANTINED, None, row.proven_ms, row.skewed, False, row.truncated, False
    )


def _part(row: Told, head_ms: int, skewed: bool) -> Reading:
    own = [ending.ends_ms for ending in row.endings]
    return Reading(
        row.starts_ms, max(own, default=None), EpisodeState.PART, head_ms, row.proven_ms, skewed, False, row.truncated,
        False,
    )  # fmt: skip
