"""From true evaluation steps to dated spans; pure functions on integers.

A step says what held at one instant of the grid. A run is an unbroken chain of true steps; its edges are then
moved to the samples that made them. The onset lies in (last good sample, first bad sample]: the first bad one is
taken. The end is the first good sample.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

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
        earliest_start_ms: the last instant at which it was seen not to hold, before the onset.
        earliest_end_ms: the last instant at which it was seen to hold; None while it lasts.
    """

    start_ms: int
    end_ms: int | None
    seen_ms: int
    cut_off: bool = False
    confirmed: bool = True
    earliest_start_ms: int | None = None
    earliest_end_ms: int | None = None


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


def joined(found: Sequence[Chain], stitch_ms: int, holes: Sequence[Hole] = ()) -> list[Chain]:
    """Joins chains that are at most this far apart; a hole between them keeps them apart, since nothing was seen."""
    whole: list[Chain] = []
    for chain in found:
        last = whole[-1] if whole else None
        near = last is not None and chain.first_ms - last.last_ms <= stitch_ms
        if last is not None and near and not any(last.last_ms <= hole.start_ms < chain.first_ms for hole in holes):
            whole[-1] = Chain(last.first_ms, chain.last_ms, last.confirmed or chain.confirmed)
        else:
            whole.append(chain)
    return whole


# A clock that is set right moves the time of a boot a little, and no second boot is as near.
_SAME_S = 5.0


def parted(chain: Chain, values: Mapping[int, float], step_ms: int) -> list[Chain]:
    """Cuts a chain where the time that its values say becomes another one: there a second event begins."""
    parts: list[Chain] = []
    first_ms = last_ms = chain.first_ms
    for at_ms in range(chain.first_ms + step_ms, chain.last_ms + 1, step_ms):
        if at_ms in values and abs(values[at_ms] - values[last_ms]) > _SAME_S:
            parts.append(Chain(first_ms, last_ms, chain.confirmed))
            first_ms = at_ms
        if at_ms in values:
            last_ms = at_ms
    return [*parts, Chain(first_ms, chain.last_ms, chain.confirmed)]


@dataclass(frozen=True, slots=True)
class Dating:
    """How the edges of chains move to where the truth was.

    Attributes:
        start_late_ms, end_late_ms: how late a function over a range makes the condition true, and false again.
        blur_ms: how far the edges may still be off, besides one step.
        stitch_ms: a hole in the truth of at most this length is not its end.
        fresh_ms: milliseconds for which a sample speaks for the time after it.
    """

    start_late_ms: int = 0
    end_late_ms: int = 0
    blur_ms: int = 0
    stitch_ms: int = 0
    fresh_ms: int = 0


def date_run(
    chain: Chain,
    grid: Grid,
    last_seen_ms: int,
    witnesses: Sequence[Points] = (),
    holes: Sequence[Hole] = (),
    how: Dating = Dating(),
) -> Run:
    """Moves the edges of a chain to the samples that made them.

    Args:
        chain: the true steps.
        grid: what was evaluated.
        last_seen_ms: time of the last sample that anybody gave.
        witnesses: raw samples of each series, 0 where it shows the condition; none keeps both edges on the grid.
        holes: spans without samples; a run neither begins nor ends inside one.
        how: see `Dating`.
    """
    first_ms = chain.first_ms - how.start_late_ms
    last_ms = max(first_ms, chain.last_ms - how.end_late_ms)
    before_ms = first_ms - grid.step_ms
    turned = [_turned_bad(points, before_ms, first_ms, how.fresh_ms) for points in witnesses]
    sharp = [at_ms for at_ms in turned if at_ms is not None]
    start_ms = max(sharp, default=first_ms)
    blur_ms = grid.step_ms + how.blur_ms
    # Where the last sample before is too old to speak for the time up to here, nobody knows how early it began.
    earliest_start_ms = _sample_before(witnesses, start_ms, how.fresh_ms) if sharp else start_ms - blur_ms
    after_ms = last_ms + grid.step_ms
    ends = [at for points in witnesses for at, value in points if last_ms < at <= after_ms and value != 0]
    end_ms = min(ends, default=after_ms)
    earliest_end_ms = _sample_before(witnesses, min(ends), how.fresh_ms) if ends else after_ms - blur_ms
    # It goes on at the horizon, or another that comes after it may yet be stitched to it.
    goes_on, waits = end_ms >= grid.horizon_ms, end_ms + how.stitch_ms >= grid.horizon_ms
    for hole in holes:
        if last_ms <= hole.start_ms < grid.horizon_ms:
            waits = False
            if hole.start_ms < end_ms:
                end_ms = earliest_end_ms = hole.start_ms
        if hole.end_ms is not None and before_ms < hole.end_ms <= first_ms:
            start_ms, earliest_start_ms = max(start_ms, hole.end_ms), hole.start_ms
    end_ms = max(end_ms, start_ms)
    if earliest_end_ms is not None:
        earliest_end_ms = min(end_ms, max(start_ms, earliest_end_ms))
    return Run(
        start_ms,
        None if waits else end_ms,
        last_seen_ms if goes_on and waits else end_ms,
        grid.is_first(chain.first_ms),
        chain.confirmed,
        earliest_start_ms,
        None if waits else earliest_end_ms,
    )


def _sample_before(witnesses: Sequence[Points], at_ms: int, fresh_ms: int) -> int | None:
    """Gives the time of the last sample before an instant that still speaks there, of the series that turned there."""
    before = [
        max((at for at, _ in points if at_ms - fresh_ms <= at < at_ms), default=None)
        for points in witnesses
        if any(at == at_ms for at, _ in points)
    ]
    known = [at for at in before if at is not None]
    return max(known, default=None)


def latched(runs: Sequence[Run], cleared_ms: Sequence[tuple[int, int]], horizon_ms: int) -> list[Run]:
    """Gives runs of a fault that lasts until something clears it, whatever its series do in between.

    Args:
        runs: of one target, in order.
        cleared_ms: (when it was seen, when it was) of each clear, in order of being seen.
        horizon_ms: end of what was evaluated.

    Law: two runs without a clear between them are one; a clear before the onset clears nothing.
    """
    found: list[Run] = []
    for run in runs:
        if found and (found[-1].end_ms is None or found[-1].end_ms > run.start_ms):
            continue
        clear = next(((seen, was) for seen, was in cleared_ms if was > run.start_ms and seen > run.start_ms), None)
        if clear is None:
            found.append(replace(run, end_ms=None, seen_ms=horizon_ms, earliest_end_ms=None))
        else:
            # A node whose clock is ahead dates its boot behind the sample that tells of it.
            was_ms = min(clear[0], max(run.start_ms, clear[1]))
            found.append(replace(run, end_ms=clear[0], seen_ms=clear[0], earliest_end_ms=was_ms))
    return found


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
