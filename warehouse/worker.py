"""The worker: looks at the next window of the signals, stores what it saw, books it; again and again."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

from sqlalchemy import Engine

from warehouse import pipeline
from warehouse.detect.observe import observe
from warehouse.detect.words import SOURCE, Finding, Settings
from warehouse.evidence.prometheus import PrometheusClient
from warehouse.model.statement import Batch, Statement
from warehouse.model.time import MS_PER_HOUR, MS_PER_MINUTE, Window, format_instant
from warehouse.pipeline import Act, Done
from warehouse.rules.alerting import DETECTOR_LABEL
from warehouse.store import alerts, evidence, progress, revisions
from warehouse.store.scopes import Resolver

# A fleet-wide join over a day costs the server seconds, over an hour little: windows stay short.
MAX_WINDOW_MS = MS_PER_HOUR

# Samples of the last scrapes may still be on their way.
LAG_SCRAPES = 2

# Samples that an agent held back come late: after this time the window is looked at once more. What comes later still
# is found by whoever looks again (`gpu-minutes run --again`).
LATENESS_MS = 15 * MS_PER_MINUTE

# A window that was first looked at this long after it ended had all of its samples then.
_LIVE_MS = 2 * MS_PER_HOUR

# Notes how far the second looks have come.
AGAIN = "detector, second look"


@dataclass(frozen=True, slots=True)
class Step:
    """What one look did: the window, what was stored, and what could not be used."""

    window: Window
    done: Done
    findings: tuple[Finding, ...]
    blind: frozenset[str] = frozenset()


def next_window(engine: Engine, settings: Settings, now_ms: int, first_ms: int, least_ms: int = 1) -> Window | None:
    """Gives the next window to look at, None when there is nothing new yet.

    Args:
        engine: the ledger's database, which knows how far the signals have been read.
        settings: how the fleet is scraped.
        now_ms: the present, or the end of what is wanted.
        first_ms: where to begin when nothing has been read yet.
        least_ms: a shorter window is left for later.
    """
    with engine.connect() as connection:
        known = progress.read(connection, SOURCE)
    start_ms = first_ms if known is None else known
    end_ms = now_ms - LAG_SCRAPES * settings.scrape_interval_ms
    end_ms = min(end_ms - end_ms % settings.scrape_interval_ms, start_ms + MAX_WINDOW_MS)
    return Window(start_ms, end_ms) if end_ms - start_ms >= least_ms else None


def second_window(engine: Engine, now_ms: int) -> Window | None:
    """Gives the next window to look at once more, None when there is none yet, or when nothing is looked at live."""
    with engine.connect() as connection:
        read_ms = progress.read(connection, SOURCE)
        known_ms = progress.read(connection, AGAIN)
    if read_ms is None:
        return None
    end_ms = (read_ms - LATENESS_MS) // LATENESS_MS * LATENESS_MS
    if now_ms - end_ms > _LIVE_MS:
        return None
    start_ms = end_ms - LATENESS_MS if known_ms is None else max(known_ms, end_ms - MAX_WINDOW_MS)
    return Window(start_ms, end_ms) if start_ms < end_ms else None


def alerted(engine: Engine) -> tuple[frozenset[str], list[tuple[int, int]]]:
    """Gives the detectors that alerts speak of since they were last looked for, and those alerts as (id, version).

    An alert without a detector of ours is dealt with by being known: a site that wants evidence of it gives it one.
    """
    with engine.connect() as connection:
        found = [e for e in alerts.open_or_changed_episodes(connection) if e.processed < e.version]
    return frozenset(e.labels.get(DETECTOR_LABEL, "") for e in found) - {""}, [(e.id, e.version) for e in found]


def dealt_with(engine: Engine, done: Iterable[tuple[int, int]]) -> None:
    """Notes that alerts were looked for; one that changed in between waits for the next look."""
    with engine.begin() as connection:
        alerts.set_processed(connection, done)


def read_until(engine: Engine) -> int | None:
    """Gives how far the signals have been read, in milliseconds, None for not at all."""
    with engine.connect() as connection:
        return progress.read(connection, SOURCE)


def step(
    engine: Engine,
    client: PrometheusClient,
    settings: Settings,
    window: Window,
    author: str,
    now_ms: int,
    book_after_ms: int = 0,
    source: str | None = SOURCE,
    only: Set[str] | None = None,
) -> Step:
    """Looks at one window and books it; a failure on the way leaves the window to be looked at again.

    Args:
        engine: the ledger's database.
        client: the signals.
        settings: how the fleet is scraped.
        window: what to look at.
        author: for the revision.
        now_ms: the present, for the revision; nothing is booked beyond the window's end.
        book_after_ms: where nothing changed, the horizon stays until it lags this far behind: each move of it
            writes the open entries of the day anew.
        source: under what name to note how far was read; None notes nothing, for time that was read before or will be.
        only: keys of the detectors to ask; None means all.

    Raises:
        PrometheusError: when the signals give no whole answer.
    """
    with engine.connect() as connection:
        revision = revisions.latest(connection)
        told = [e for e in evidence.in_window(connection, window) if e.source == SOURCE]
        # As the fleet stands when the window ends: a node that came in the middle of it is known, one that left too.
        resolver = Resolver(connection, window.end_ms - 1)
        resolver.learn(connection)
    seen = observe(window, client, resolver, told, settings, only)
    statements = tuple(Statement(f"detector {item.key}", item) for item in seen.evidence)
    looked = f"{format_instant(window.start_ms)} to {format_instant(window.end_ms)}"
    act = Act("observe", author, f"looked at {looked}", now_ms)
    booked_ms = revision.horizon_ms if revision and revision.horizon_ms else 0
    lags = source == SOURCE and window.end_ms - booked_ms >= max(book_after_ms, 1)
    done = pipeline.take_in(
        engine,
        Batch(statements, len(statements)),
        act,
        revise=True,
        observed=None if source is None else (source, window.end_ms),
        until_ms=window.end_ms if lags else None,
        seen_ms=max(window.end_ms, booked_ms),
    )
    return Step(window, done, tuple(seen.findings), seen.blind)
