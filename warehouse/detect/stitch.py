"""One episode, one evidence: follows what was already open, and says what is new."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from warehouse.detect.runs import Run
from warehouse.model.evidence import Evidence
from warehouse.model.time import MS_PER_HOUR, Window, format_instant

# PostgreSQL refuses index rows over a third of a page, and a joined scope may name a thousand nodes.
_MAX_SCOPE_IN_KEY = 200

_KEY = re.compile(r"det:([^@]+)@\d+:(.*):\d{4}-\d\d-\d\dT[\d:.]+Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Followed:
    """`continued` are known evidence with their ends, `fresh` runs without any, `lost` evidence without a run."""

    continued: list[Evidence]
    fresh: list[Run]
    lost: list[Evidence]


def evidence_key(detector: str, version: int, scope: str, start_ms: int) -> str:
    """Gives the name of an episode; a very long scope stands in it as a digest."""
    if len(scope) > _MAX_SCOPE_IN_KEY:
        scope = f"{scope.count('+') + 1}-places-{hashlib.sha256(scope.encode()).hexdigest()[:16]}"
    return f"det:{detector}@{version}:{scope}:{format_instant(start_ms)}"


def detector_of(evidence: Evidence) -> str | None:
    """Gives the key of the detector that found an episode, of whatever version: a new one goes on with it."""
    match = _KEY.match(evidence.key)
    return match.group(1) if match else None


def name_in_key(evidence: Evidence) -> str:
    """Gives whom an episode is about, as its detector names it: a place, `job:7` or `endpoint:chat`."""
    match = _KEY.match(evidence.key)
    return match.group(2) if match else ""


LostOf = Callable[[int, int | None], int | None]


def no_loss(start_ms: int, end_ms: int | None) -> int | None:
    """Knows of no lost part."""
    return None


@dataclass(frozen=True, slots=True)
class Following:
    """How runs of one detector become evidence: the shortest, from where they were seen, events, the lost part.

    `lost_of` gives the part that is lost from an onset to an end, None: up to now.
    """

    minimum_ms: int
    seen_from_ms: int
    momentary: bool = False
    lost_of: LostOf = no_loss


def follow(runs: Iterable[Run], known: Sequence[Evidence], window: Window, how: Following) -> Followed:
    """Matches the runs of one detector and one scope with the evidence already told of them.

    A new run is fresh when it reaches into the window and is long enough. One that is still open but too short
    waits for the next window, which looks back far enough to see it whole: so two windows say what one would. An event
    is fresh wherever it was seen, since it may have been dated before the window in which it came to light.
    """
    waiting = sorted(known, key=lambda evidence: (evidence.start_ms, evidence.key))
    continued: list[Evidence] = []
    fresh: list[Run] = []
    for run in sorted(runs, key=lambda run: run.start_ms):
        told = next((evidence for evidence in waiting if _overlaps(evidence, run)), None)
        if told is not None:
            waiting.remove(told)
            # What goes on is measured up to the last full hour: there is nothing new before the next one.
            hour_ms = window.end_ms // MS_PER_HOUR * MS_PER_HOUR
            news = run.end_ms is not None or window.start_ms < hour_ms >= told.start_ms + how.minimum_ms
            lost = how.lost_of(told.start_ms, run.end_ms) if news else None
            continued.append(extend(told, run.end_ms, window, run.earliest_end_ms, lost))
        elif _may_begin(run, window, how):
            fresh.append(run)
    return Followed(continued, fresh, waiting)


def extend(
    told: Evidence, end_ms: int | None, window: Window, earliest_end_ms: int | None = None, lost: int | None = None
) -> Evidence:
    """Gives known evidence with the end that this window saw, and the part that was lost until then.

    An end that lies after the window was seen by a later one and stands: an old window evaluated again must
    not open the episode again.
    """
    if told.end_ms is not None and (end_ms is None or told.end_ms > window.end_ms):
        return told
    if end_ms is not None and end_ms < told.start_ms:
        end_ms = earliest_end_ms = told.start_ms
    if earliest_end_ms is not None:
        earliest_end_ms = max(earliest_end_ms, told.start_ms)
    return replace(
        told,
        end_ms=end_ms,
        earliest_end_ms=None if end_ms is None else earliest_end_ms,
        lost_ppm=told.lost_ppm if lost is None else lost,
    )


def unlatch(
    told: Iterable[Evidence], clears: Mapping[str, Sequence[tuple[int, int]]], window: Window
) -> list[Evidence]:
    """Gives evidence of a latched fault, of which this look saw no series: it goes on until its node was cleared.

    Args:
        told: evidence without a run.
        clears: per node (when it was seen, when it was) of each clear, in milliseconds and in order.
        window: what was looked at.
    """
    found = []
    for item in told:
        node = name_in_key(item).partition("/")[0]
        after = ((seen, was) for seen, was in clears.get(node, ()) if was > item.start_ms and seen > item.start_ms)
        clear = next(after, None)
        found.append(item if clear is None else extend(item, clear[0], window, min(clear)))
    return found


def abandon(told: Evidence, seen_from_ms: int, window: Window) -> Evidence:
    """Ends known evidence that no run stands for any more.

    Where the series now say that nothing was wrong at its onset, late data has disproved it: it keeps zero
    length. Otherwise it ends where this window begins, since nothing says that it lasted into it.
    """
    if told.end_ms is not None:
        return told
    end_ms = told.start_ms if told.start_ms >= seen_from_ms else window.start_ms
    return replace(told, end_ms=end_ms, earliest_end_ms=told.start_ms)


def _may_begin(run: Run, window: Window, how: Following) -> bool:
    if how.momentary:
        return run.confirmed and run.start_ms >= how.seen_from_ms
    reaches = run.end_ms is None or run.end_ms > window.start_ms
    return run.confirmed and reaches and run.seen_ms - run.start_ms >= how.minimum_ms


def _overlaps(told: Evidence, run: Run) -> bool:
    begins_before_end = run.end_ms is None or told.start_ms < run.end_ms
    return begins_before_end and (told.end_ms is None or run.start_ms < told.end_ms)
