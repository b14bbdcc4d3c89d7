"""Derives entries from what is stored, over whole days, and compares them with what stands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from warehouse.causes import load_causes
from warehouse.incidents.group import charged_cause
from warehouse.ledger.claims import allocation_claims, evidence_claims, tenure_claims
from warehouse.ledger.laws import check_conservation
from warehouse.ledger.sweep import cut, sweep
from warehouse.model.entry import Claim, Entry
from warehouse.model.evidence import Evidence
from warehouse.model.fleet import TenureBlock
from warehouse.model.slots import SlotRanges, overlap
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
    return dict.fromkeys(tile(claims_in(connection, window, tenure, horizon_ms), tenure, window))


def claims_in(
    connection: Connection,
    window: Window,
    tenure: Sequence[TenureBlock],
    horizon_ms: int,
    slots: SlotRanges | None = None,
    rev: int | None = None,
) -> list[Claim]:
    """Gives what all that is stored claims about a window.

    Args:
        connection: the ledger's database.
        window: what reaches into it.
        tenure: what was installed, at the same revision.
        horizon_ms: how far is booked.
        slots: only about these, and cut to them; None means all.
        rev: as of this revision; None means the newest rows, those of a revision being written among them.
    """
    said = (
        evidence.in_window(connection, window, rev) if slots is None else evidence.near(connection, window, slots, rev)
    )
    held = evidence.allocations_in(connection, window, rev)
    if slots is not None:
        tenure = within(tenure, slots)
        said = [replace(e, slots=overlap(e.slots, slots)) for e in said]
        held = [replace(a, slots=overlap(a.slots, slots)) for a in held]
    charged = incidents.incident_of(connection, [e.id for e in said if e.id is not None], rev)
    causes = load_causes()

    def charge(item: Evidence) -> tuple[int | None, str | None]:
        return charged.get(item.id or 0) or (None, charged_cause(item, causes))

    return [
        *tenure_claims(tenure, horizon_ms),
        *evidence_claims(said, charge, horizon_ms),
        *allocation_claims(held, horizon_ms),
    ]


def tile(claims: Iterable[Claim], tenure: Sequence[TenureBlock], window: Window) -> list[Entry]:
    """Gives the tiling that claims make of a window, cut at midnights.

    Raises:
        LawBroken: when it does not cover tenure exactly.
    """
    tiling = cut(sweep(claims, window), day_cuts(window))
    check_conservation(tiling, tenure, window)
    return tiling


def within(tenure: Iterable[TenureBlock], slots: SlotRanges) -> list[TenureBlock]:
    """Gives the part of tenure that lies on some slots."""
    cut_down = (replace(block, slots=overlap(block.slots, slots)) for block in tenure)
    return [block for block in cut_down if block.slots]
