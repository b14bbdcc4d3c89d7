"""Derives entries from what is stored, over whole days, and compares them with what stands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection

from warehouse.causes import load_causes
from warehouse.incidents.group import charged_cause
from warehouse.ledger.claims import allocation_claims, evidence_claims, tenure_claims
from warehouse.ledger.laws import check_conservation
from warehouse.ledger.sweep import cut, sweep
from warehouse.model.entry import Entry
from warehouse.model.evidence import Evidence
from warehouse.model.fleet import TenureBlock
from warehouse.model.time import MS_PER_DAY, Window, day_cuts, format_instant
from warehouse.store import entries, evidence, fleet, incidents
from warehouse.store.revisions import Revision

Span = tuple[int, int | None]

# Days that are derived at once: enough to read each claim seldom, few enough to bound the memory.
MOST_DAYS = 31


def rebook(
    connection: Connection,
    spans: Iterable[Span],
    tenure: Sequence[TenureBlock],
    first_ms: int,
    horizon_ms: int,
    rev: int,
) -> tuple[dict[Entry, int], list[Entry]]:
    """Derives the days that the spans touch and writes what differs from what stands.

    Args:
        connection: the act's transaction.
        spans: the time whose booking may change.
        tenure: all of it, at this revision.
        first_ms: the first commissioning, before which nothing is booked; a slot may stand empty since then.
        horizon_ms: nothing is booked beyond it.
        rev: the revision being written.

    Returns:
        The entries that it closed, with their row ids, and those that it opened.

    Raises:
        LawBroken: when the derived tiling breaks a law.
    """
    closed: dict[Entry, int] = {}
    opened: list[Entry] = []
    for window in days(spans, first_ms, horizon_ms):
        derived = derive(connection, window, tenure, horizon_ms)
        standing = entries.head(connection, window)
        gone = {e: i for e, i in standing.items() if e not in derived}
        fresh = [e for e in derived if e not in standing]
        entries.change(connection, list(gone.values()), fresh, rev)
        closed.update(gone)
        opened.extend(fresh)
    return closed, opened


def differences(connection: Connection, revision: Revision, most_days: int = 7) -> tuple[int, str | None]:
    """Law 3: deriving again gives what stands. Tries the first, the last and evenly spread days between.

    Returns:
        How many days were derived, and the first that differs, None where none does.
    """
    tenure = fleet.tenure_blocks(connection, revision.rev)
    first = min((block.start_ms for block in tenure), default=None)
    if first is None or revision.horizon_ms is None or revision.horizon_ms <= first:
        return 0, None
    days = list(range(first // MS_PER_DAY, -(-revision.horizon_ms // MS_PER_DAY)))
    chosen = sorted({days[round(n * (len(days) - 1) / max(1, most_days - 1))] for n in range(most_days)})
    for day in chosen:
        window = Window(day * MS_PER_DAY, min((day + 1) * MS_PER_DAY, revision.horizon_ms))
        if derive(connection, window, tenure, revision.horizon_ms).keys() != entries.head(connection, window).keys():
            return len(chosen), format_instant(window.start_ms)
    return len(chosen), None


def days(spans: Iterable[Span], first_ms: int, horizon_ms: int) -> list[Window]:
    """Gives the whole UTC days that the spans touch, as windows clipped to what is booked, neighbours joined."""
    days: set[int] = set()
    for start_ms, end_ms in spans:
        low = max(start_ms, first_ms) // MS_PER_DAY
        high = min(horizon_ms if end_ms is None else end_ms, horizon_ms)
        days.update(range(low, -(-high // MS_PER_DAY)))
    windows: list[list[int]] = []
    for day in sorted(days):
        if windows and windows[-1][1] == day * MS_PER_DAY and day - windows[-1][0] // MS_PER_DAY < MOST_DAYS:
            windows[-1][1] = (day + 1) * MS_PER_DAY
        else:
            windows.append([day * MS_PER_DAY, (day + 1) * MS_PER_DAY])
    clipped = ((start, min(end, horizon_ms)) for start, end in windows)
    return [Window(start, end) for start, end in clipped if start < end]


def derive(connection: Connection, window: Window, tenure: Sequence[TenureBlock], horizon_ms: int) -> dict[Entry, None]:
    """Gives the tiling of a window, from everything that is stored about it, in order."""
    said = evidence.in_window(connection, window)
    charged = incidents.incident_of(connection, [e.id for e in said if e.id is not None])
    causes = load_causes()

    def charge(item: Evidence) -> tuple[int | None, str | None]:
        return charged.get(item.id or 0) or (None, charged_cause(item, causes))

    claims = [
        *tenure_claims(tenure, horizon_ms),
        *evidence_claims(said, charge, horizon_ms),
        *allocation_claims(evidence.allocations_in(connection, window), horizon_ms),
    ]
    tiling = cut(sweep(claims, window), day_cuts(window))
    check_conservation(tiling, tenure, window)
    return dict.fromkeys(tiling)
