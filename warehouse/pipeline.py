"""The order of the stages, and nothing else: statements -> evidence -> incidents -> entries, one transaction each.

Whatever goes in, the ledger afterwards is what deriving it from scratch would give; a failure anywhere leaves it as
it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection, Engine

from warehouse import __version__
from warehouse.causes import load_causes
from warehouse.errors import BadInput, bad_rows
from warehouse.incidents.group import REOPEN_MS, charged_cause, group, opens_incident
from warehouse.intake import Intake, place, regrown, sort_out
from warehouse.ledger.claims import allocation_claims, evidence_claims, tenure_claims
from warehouse.ledger.laws import check_conservation
from warehouse.ledger.sweep import cut, sweep
from warehouse.model.entry import Entry
from warehouse.model.evidence import Evidence
from warehouse.model.fleet import NodeSpec, TenureBlock
from warehouse.model.rate import RateSpec
from warehouse.model.slots import SlotRanges, normalise
from warehouse.model.state import State
from warehouse.model.statement import Batch
from warehouse.model.time import MS_PER_DAY, Window, day_cuts, format_instant, to_datetime
from warehouse.store import entries, evidence, fleet, incidents, progress, rates, revisions
from warehouse.store.revisions import Revision

Span = tuple[int, int | None]

# A change of this many entries moves the planner's statistics; the database's own daemon takes a minute to notice.
_ANALYSE_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class Act:
    """Who does what, when and why: the head of a revision."""

    kind: str
    author: str
    reason: str
    now_ms: int


@dataclass(frozen=True, slots=True)
class Done:
    """What an act did. `rev` is the ledger's newest revision; `changed` tells whether this act wrote it."""

    rev: int
    changed: bool
    intake: Intake = field(default_factory=Intake)
    refused: tuple[str, ...] = ()
    nodes_added: int = 0
    nodes_repeated: int = 0
    nodes_retired: int = 0
    rates_added: int = 0
    rates_repeated: int = 0
    contested: int = 0
    closed: int = 0
    opened: int = 0
    horizon_ms: int | None = None


def take_in(
    engine: Engine,
    batch: Batch,
    act: Act,
    *,
    book: bool = True,
    revise: bool = False,
    keep_good: bool = False,
    observed: tuple[str, int] | None = None,
    until_ms: int | None = None,
) -> Done:
    """Stores a batch and books the time that it touched.

    Args:
        engine: the ledger's database.
        batch: what a source said.
        act: who, when, why.
        book: False defers the booking to a later `book`.
        revise: True lets a known id say something else, as a further revision of it.
        keep_good: True stores the good rows beside bad ones and tells of the bad ones in `Done.refused`.
        observed: a live source and the millisecond up to which it has now been read.
        until_ms: moves the horizon forward to here, even where nothing new was said.

    Raises:
        BadInput: a line a fault; then nothing of the batch is stored.
        LawBroken: when the derived tiling breaks a law; then nothing is stored either.
    """
    with engine.begin() as connection:
        revisions.lock_writer(connection)
        rev, before = _next(connection)
        nodes, findings = fleet.load(connection, batch.nodes, rev)
        if findings:
            raise bad_rows(findings)
        placed, unplaced = place(connection, batch.statements)
        grown = regrown(connection) if nodes.touched else Intake()
        intake, contradicting = sort_out(connection, placed, revise=revise)
        refused = (*batch.refused, *map(str, unplaced), *map(str, contradicting))
        if refused and not keep_good:
            raise bad_rows(refused)
        pending = book and progress.pending_since(connection) is not None
        if observed is not None and not progress.advance(connection, *observed):
            # Another worker was here first; what it saw stands.
            return Done(rev - 1, False, horizon_ms=_horizon(before))
        if not (intake.evidence or intake.allocations or nodes.added or nodes.retired or until_ms or pending):
            return Done(
                rev - 1, False, intake, nodes_repeated=nodes.repeated, horizon_ms=_horizon(before), refused=refused
            )
        touched = [*nodes.touched, *_store(connection, intake.with_grown(grown), rev)]
        # A new fleet is never deferred: installed time must be tiled at every revision.
        book = book or bool(nodes.touched)
        if book:
            touched += _group(connection, rev)
        else:
            progress.defer(connection, touched, rev)
        words = [s.said for s in batch.statements] + list(batch.nodes)
        seen_ms = act.now_ms if observed is None else min(act.now_ms, observed[1])
        done = _finish(
            connection, act, rev, before, touched, revisions.digest(words), book=book,
            until_ms=until_ms, seen_ms=seen_ms,
        )  # fmt: skip
        contested = evidence.contested(connection, rev) if intake.allocations else 0
        return replace(
            done,
            contested=contested,
            refused=refused,
            intake=intake,
            nodes_added=nodes.added,
            nodes_repeated=nodes.repeated,
            nodes_retired=nodes.retired,
        )


def load_fleet(engine: Engine, nodes: Sequence[NodeSpec], act: Act) -> Done:
    """Stores nodes and their tenure; see `take_in`."""
    return take_in(engine, Batch((), len(nodes), tuple(nodes)), act)


def load_rates(engine: Engine, specs: Sequence[RateSpec], act: Act) -> Done:
    """Stores rates. Prices change no entry, so nothing is booked.

    Raises:
        BadInput: a line a fault; then nothing is stored.
    """
    with engine.begin() as connection:
        revisions.lock_writer(connection)
        rev, before = _next(connection)
        added, repeated, findings = rates.load(connection, specs, rev)
        if findings:
            raise bad_rows(findings)
        if not added:
            return Done(rev - 1, False, rates_repeated=repeated, horizon_ms=_horizon(before))
        done = _finish(connection, act, rev, before, [], revisions.digest(specs), book=False)
        return replace(done, rates_added=added, rates_repeated=repeated)


def book(engine: Engine, act: Act, window: Window | None = None, until_ms: int | None = None) -> Done:
    """Derives entries from all stored evidence, over a window or over everything; deriving twice writes nothing.

    Args:
        engine: the ledger's database.
        act: who, when, why.
        window: what to derive; whole UTC days are derived. None means everything up to the horizon.
        until_ms: moves the horizon forward to here; it never moves back.

    Raises:
        BadInput: when `until_ms` is in the future.
    """
    if until_ms is not None and until_ms > act.now_ms:
        raise BadInput("--to is in the future; only what has passed can be booked")
    with engine.begin() as connection:
        revisions.lock_writer(connection)
        rev, before = _next(connection)
        touched: list[Span] = [(0, None)] if window is None else [(window.start_ms, window.end_ms)]
        if progress.pending_since(connection) is not None:
            touched += _group(connection, rev)
        return _finish(connection, act, rev, before, touched, revisions.digest([]), until_ms=until_ms)


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
        if _derive(connection, window, tenure, revision.horizon_ms).keys() != entries.head(connection, window).keys():
            return len(chosen), format_instant(window.start_ms)
    return len(chosen), None


def _next(connection: Connection) -> tuple[int, Revision | None]:
    before = revisions.latest(connection)
    return (before.rev + 1 if before else 1), before


def _horizon(before: Revision | None) -> int | None:
    return before.horizon_ms if before else None


def _store(connection: Connection, intake: Intake, rev: int) -> list[Span]:
    """Writes evidence and allocations; gives the spans whose booking may change."""
    evidence.write_allocations(connection, intake.allocations, intake.superseded_allocations, rev)
    if intake.evidence:
        evidence.write(connection, intake.evidence, rev)
    held = [(a.start_ms, a.end_ms) for a in (*intake.allocations, *intake.superseded_allocations)]
    return held + [(e.start_ms, e.end_ms) for e in (*intake.evidence, *intake.superseded)]


def _group(connection: Connection, rev: int) -> list[Span]:
    """Groups what was said since the last booking with what lies near it; gives the spans of all that moved by that.

    Grouping goes with booking, so that at every revision an entry names the incident that its evidence has.
    """
    since = min(rev, progress.pending_since(connection) or rev)
    fresh, superseded = evidence.said_since(connection, since)
    if not fresh and not superseded:
        return []
    moved = _regroup(connection, fresh, superseded, rev)
    return [(e.start_ms, e.end_ms) for e in (*fresh, *superseded, *moved)]


def _regroup(
    connection: Connection, fresh: Sequence[Evidence], superseded: Sequence[Evidence], rev: int
) -> list[Evidence]:
    """Groups new evidence with what lies near it; gives the evidence whose incident or charged cause changed."""
    old_id: dict[tuple[str, str], int | None] = {}
    for item in sorted(superseded, key=lambda e: e.revision):
        old_id.setdefault((item.source, item.key), item.id)  # the first one is the one that was grouped
    predecessor = {e.id: old for e in fresh if e.id is not None and (old := old_id.get((e.source, e.key))) is not None}
    causes = load_causes()
    told: dict[int, Evidence] = {}
    before: dict[int, int] = {}
    reach: list[Evidence] = [*fresh, *superseded]
    while True:
        # What lies near in time and slots may touch more, and its incident may hold more: until nothing new comes in.
        near = evidence.near(connection, _span_of(reach, max(REOPEN_MS.values())), _slots_of(reach))
        ids = [e.id for e in (*near, *superseded) if e.id is not None]
        before = incidents.members_of(connection, ids)
        found = {e.id: e for e in (*near, *evidence.by_id(connection, before)) if e.id is not None}
        fresh_ids = found.keys() - told.keys()
        told |= found
        reach = [*fresh, *superseded, *(e for e in told.values() if opens_incident(e, causes))]
        if not any(opens_incident(told[i], causes) for i in fresh_ids):
            break
    windows = [e for e in evidence.in_window(connection, _span_of(reach, 0)) if e.state is State.MAINTENANCE]
    groups = group(told.values(), causes, windows)
    moved = incidents.regroup(connection, groups, before, predecessor, causes, rev)
    return [told[i] for i in moved if i in told]


def _slots_of(items: Iterable[Evidence]) -> SlotRanges:
    return normalise(part for e in items for part in e.slots)


def _span_of(items: Iterable[Evidence], margin_ms: int) -> Window:
    items = list(items)
    start_ms = min(e.start_ms for e in items) - margin_ms
    ends = [e.start_ms if e.end_ms is None else e.end_ms for e in items]
    far = 253_402_300_799_000  # the year 9999: an open end reaches everything that comes later
    end_ms = far if any(e.end_ms is None for e in items) else max(ends) + margin_ms
    return Window(start_ms, max(end_ms, start_ms + 1))


def _finish(
    connection: Connection,
    act: Act,
    rev: int,
    before: Revision | None,
    touched: Sequence[Span],
    digest: bytes,
    *,
    book: bool = True,
    until_ms: int | None = None,
    seen_ms: int | None = None,
) -> Done:
    """Books what was touched and writes the revision, unless a mere derivation changed nothing."""
    old = _horizon(before)
    closed: dict[Entry, int] = {}
    opened: list[Entry] = []
    horizon = old
    if book:
        tenure = fleet.tenure_blocks(connection, rev)
        reach = revisions.wanted_horizon(connection, act.now_ms if seen_ms is None else seen_ms)
        wanted = [h for h in (old, until_ms, reach) if h is not None]
        first = min((block.start_ms for block in tenure), default=None)
        if wanted and first is not None:
            horizon = max(wanted)
            spans = [*touched, *progress.take_deferred(connection, rev), (first if old is None else old, horizon)]
            for window in _days(spans, first, horizon):
                derived = _derive(connection, window, tenure, horizon)
                standing = entries.head(connection, window)
                closed.update({e: i for e, i in standing.items() if e not in derived})
                opened.extend(e for e in derived if e not in standing)
            entries.change(connection, list(closed.values()), opened, rev)
    nothing_new = not touched or act.kind == "derive"
    if act.kind in ("derive", "observe") and nothing_new and not closed and not opened and horizon == old:
        return Done(rev - 1, False, horizon_ms=old)
    revision = Revision(
        rev,
        to_datetime(act.now_ms),
        act.kind,
        act.author,
        f"gpu-minutes {__version__}",
        horizon,
        digest,
        act.reason,
        b"",
    )
    revisions.add(connection, revision, closed, opened)
    if len(opened) + len(closed) >= _ANALYSE_ROWS:
        revisions.analyse(connection)
    return Done(rev, True, closed=len(closed), opened=len(opened), horizon_ms=horizon)


def _days(spans: Iterable[Span], first_ms: int, horizon_ms: int) -> list[Window]:
    """Gives the whole UTC days that the spans touch, as windows clipped to what is booked, neighbours joined."""
    days: set[int] = set()
    for start_ms, end_ms in spans:
        low = max(start_ms, first_ms) // MS_PER_DAY
        high = min(horizon_ms if end_ms is None else end_ms, horizon_ms)
        days.update(range(low, -(-high // MS_PER_DAY)))
    windows: list[list[int]] = []
    for day in sorted(days):
        if windows and windows[-1][1] == day * MS_PER_DAY:
            windows[-1][1] = (day + 1) * MS_PER_DAY
        else:
            windows.append([day * MS_PER_DAY, (day + 1) * MS_PER_DAY])
    clipped = ((start, min(end, horizon_ms)) for start, end in windows)
    return [Window(start, end) for start, end in clipped if start < end]


def _derive(
    connection: Connection, window: Window, tenure: Sequence[TenureBlock], horizon_ms: int
) -> dict[Entry, None]:
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
