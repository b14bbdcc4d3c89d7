"""One episode, one evidence: follows what was already open, and says what is new."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from warehouse.detect.runs import Run
from warehouse.model.evidence import Evidence
from warehouse.model.time import Window, format_instant

# PostgreSQL refuses index rows over a third of a page, and a joined scope may name a thousand nodes.
_MAX_SCOPE_IN_KEY = 200

_KEY = re.compile(r"det:([^@]+)@\d+:")


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


def follow(runs: Iterable[Run], known: Sequence[Evidence], window: Window, minimum_ms: int) -> Followed:
    """Matches the runs of one detector and one scope with the evidence already told of them.

    A new run is fresh when it reaches into the window and is long enough. One that is still open but too short
    waits for the next window, which looks back far enough to see it whole: so two windows say what one would.
    """
    waiting = sorted(known, key=lambda evidence: (evidence.start_ms, evidence.key))
    continued: list[Evidence] = []
    fresh: list[Run] = []
    for run in sorted(runs, key=lambda run: run.start_ms):
        told = next((evidence for evidence in waiting if _overlaps(evidence, run)), None)
        if told is not None:
            waiting.remove(told)
            continued.append(extend(told, run.end_ms, window))
        elif _may_begin(run, window, minimum_ms):
            fresh.append(run)
    return Followed(continued, fresh, waiting)


def extend(told: Evidence, end_ms: int | None, window: Window) -> Evidence:
    """Gives known evidence with the end that this window saw.

    An end that lies after the window was seen by a later one and stands: an old window evaluated again must
    not open the episode again.
    """
    if told.end_ms is not None and (end_ms is None or told.end_ms > window.end_ms):
        return told
    return replace(told, end_ms=end_ms)


def abandon(told: Evidence, seen_from_ms: int, window: Window) -> Evidence:
    """Ends known evidence that no run stands for any more.

    Where the series now say that nothing was wrong at its onset, late data has disproved it: it keeps zero
    length. Otherwise it ends where this window begins, since nothing says that it lasted into it.
    """
    if told.end_ms is not None:
        return told
    return replace(told, end_ms=told.start_ms if told.start_ms >= seen_from_ms else window.start_ms)


def _may_begin(run: Run, window: Window, minimum_ms: int) -> bool:
    reaches = run.end_ms is None or run.end_ms > window.start_ms
    return run.confirmed and reaches and run.seen_ms - run.start_ms >= minimum_ms


def _overlaps(told: Evidence, run: Run) -> bool:
    begins_before_end = run.end_ms is None or told.start_ms < run.end_ms
    return begins_before_end and (told.end_ms is None or run.start_ms < told.end_ms)
