"""From true evaluation steps to dated spans; pure functions on integers.

A step says what held at one instant of the grid. A run is an unbroken chain of true steps; its edges are then
moved to the samples that made them. The onset lies in (last good sample, first bad sample]: the first bad one is
taken. The end is the first good sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from warehouse.evidence.prometheus import Points


@dataclass(frozen=True, slots=True)
class Hole:
    """No sample lies strictly inside (start_ms, end_ms); `end_ms` None means that none came up to the end."""

    start_ms: int
    end_ms: int | None

    def hides(self, at_ms: int) -> bool:
        """Tells whether an answer for this instant would only repeat what was true before the hole."""
        return self.start_ms < at_ms and (self.end_ms is None or at_ms < self.end_ms)


@dataclass(frozen=True, slots=True)
class Chain:
    """Unbroken true steps, first and last, in milliseconds."""

    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class Run:
    """A dated span. `end_ms` None: it lasts to the end of the window. `cut_off`: it was true at the first step."""

    start_ms: int
    end_ms: int | None
    cut_off: bool

    def length_ms(self, horizon_ms: int) -> int:
        """Gives the length in milliseconds, up to the horizon for an open run."""
        return (horizon_ms if self.end_ms is None else self.end_ms) - self.start_ms


@dataclass(frozen=True, slots=True)
class Grid:
    """The evaluated steps: multiples of `step_ms` in [start_ms, horizon_ms)."""

    start_ms: int
    horizon_ms: int
    step_ms: int

    def is_first(self, at_ms: int) -> bool:
        """Tells whether nothing was evaluated before this step."""
        return at_ms - self.step_ms < self.start_ms


def chains(steps: Iterable[int], step_ms: int, holes: Sequence[Hole] = ()) -> list[Chain]:
    """Joins true steps that follow each other; steps hidden by a hole say nothing and are left out."""
    found: list[Chain] = []
    for at_ms in sorted(set(steps)):
        if any(hole.hides(at_ms) for hole in holes):
            continue
        if found and at_ms - found[-1].last_ms == step_ms:
            found[-1] = Chain(found[-1].first_ms, at_ms)
        else:
            found.append(Chain(at_ms, at_ms))
    return found


def back_date(late: Iterable[Chain], exact: Sequence[Chain]) -> list[Chain]:
    """Dates chains of a range function by chains of the same condition without it.

    The range function becomes true late by up to its window, and outlives a dead target by as much. So the
    exact chain that holds the late one's first step gives the onset, and the end where it ends first.
    """
    dated = []
    for chain in late:
        for other in exact:
            if other.first_ms <= chain.first_ms <= other.last_ms:
                chain = Chain(other.first_ms, min(chain.last_ms, other.last_ms))
                break
        dated.append(chain)
    return dated


def date_run(
    chain: Chain, grid: Grid, witnesses: Sequence[Points] = (), holes: Sequence[Hole] = (), fresh_ms: int = 0
) -> Run:
    """Moves the edges of a chain to the samples that made them.

    Args:
        chain: the true steps.
        grid: what was evaluated.
        witnesses: raw samples of each series that must be 0; none keeps both edges on the grid.
        holes: spans without samples; a run neither begins nor ends inside one.
        fresh_ms: milliseconds for which a sample speaks for the time after it.
    """
    before_ms = chain.first_ms - grid.step_ms
    turned = [_turned_bad(points, before_ms, chain.first_ms, fresh_ms) for points in witnesses]
    start_ms = max((at_ms for at_ms in turned if at_ms is not None), default=chain.first_ms)
    after_ms = chain.last_ms + grid.step_ms
    end_ms: int | None = min(
        (at for points in witnesses for at, value in points if chain.last_ms < at <= after_ms and value != 0),
        default=after_ms,
    )
    if end_ms is not None and end_ms >= grid.horizon_ms:
        end_ms = None
    for hole in holes:
        if chain.last_ms <= hole.start_ms < (grid.horizon_ms if end_ms is None else end_ms):
            end_ms = hole.start_ms
        if hole.end_ms is not None and before_ms < hole.end_ms <= chain.first_ms:
            start_ms = max(start_ms, hole.end_ms)
    return Run(start_ms, end_ms, cut_off=grid.is_first(chain.first_ms))


def _turned_bad(points: Points, after_ms: int, until_ms: int, fresh_ms: int) -> int | None:
    """Gives the first of the bad samples that fill the end of (after, until]; None when it was bad before."""
    turned: int | None = None
    for at_ms, value in reversed(points):
        if at_ms > until_ms:
            continue
        if at_ms <= after_ms:
            return None if value == 0 and after_ms - at_ms <= fresh_ms else turned
        if value != 0:
            break
        turned = at_ms
    return turned
