"""From true evaluation steps to dated spans; pure functions on integers.

A step says what held at one instant of the grid. A run is an unbroken chain of true steps; its edges are then
moved to the samples that made them. The onset lies in (last good sample, first bad sample]: the first bad one is
taken. The end is the first good sample.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
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
    """Unbroken true steps, first and last, in milliseconds; unconfirmed ones only go on with what is told."""

    first_ms: int
    last_ms: int
    confirmed: bool = True


@dataclass(frozen=True, slots=True)
class Run:
    """A dated span of one episode.

    Attributes:
        start_ms: onset.
        end_ms: the first instant at which it held no more; None: it lasts to the end of the window.
        seen_ms: up to when samples prove it, the end for a closed run: what a query carries forward is no proof.
        cut_off: whether it was true at the first evaluated step, so that its onset may be earlier.
        confirmed: whether it may begin an episode; otherwise it can only go on with one.
    """

    start_ms: int
    end_ms: int | None
    seen_ms: int
    cut_off: bool = False
    confirmed: bool = True


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


def confirm(exact: Iterable[Chain], late: Iterable[int]) -> list[Chain]:
    """Gives chains of a condition, confirmed where the same condition over a range held at some step of them.

    A range function becomes true late by up to its window, breaks where a single series flickers, and outlives a
    dead target. So it only tells which chains are real; their edges come from the condition without it.
    """
    steps = sorted(set(late))
    return [
        Chain(chain.first_ms, chain.last_ms, bisect_left(steps, chain.first_ms) < bisect_right(steps, chain.last_ms))
        for chain in exact
    ]


def date_run(
    chain: Chain,
    grid: Grid,
    last_seen_ms: int,
    witnesses: Sequence[Points] = (),
    holes: Sequence[Hole] = (),
    fresh_ms: int = 0,
) -> Run:
    """Moves the edges of a chain to the samples that made them.

    Args:
        chain: the true steps.
        grid: what was evaluated.
        last_seen_ms: time of the last sample that anybody gave.
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
    seen_ms = last_seen_ms if end_ms is None else end_ms
    return Run(start_ms, end_ms, seen_ms, grid.is_first(chain.first_ms), chain.confirmed)


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
