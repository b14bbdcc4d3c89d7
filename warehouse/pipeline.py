"""The order of the stages, and nothing else: statements -> evidence -> incidents -> entries, one transaction each.

Whatever goes in, the ledger afterwards is what deriving it from scratch would give; a failure anywhere leaves it as
it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection, Engine

from warehouse import __version__, books, prices
from warehouse.booking import rebook
from warehouse.errors import BadInput, bad_rows
from warehouse.grouping import group_fresh
from warehouse.intake import Intake, place, regrown, sort_out
from warehouse.model.entry import Entry
from warehouse.model.fleet import NodeSpec
from warehouse.model.rate import RateSpec
from warehouse.model.statement import Batch
from warehouse.model.time import Window, to_datetime
from warehouse.planning import unfold
from warehouse.store import evidence, fleet, plans, progress, rates, revisions
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
    corrections: int = 0
    horizon_ms: int | None = None
    unfolded: int = 0


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
    seen_ms: int | None = None,
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
        seen_ms: how far the source had been read; None means the present.

    Raises:
        BadInput: a line a fault; then nothing of the batch is stored.
        LawBroken: when the derived tiling breaks a law; then nothing is stored either.
    """
    with engine.begin() as connection:
        revisions.lock_writer(connection)
        rev, before = next_revision(connection)
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
        said = intake.evidence or intake.allocations or intake.plans
        if not (said or nodes.added or nodes.retired or until_ms or pending):
            return Done(
                rev - 1, False, intake, nodes_repeated=nodes.repeated, horizon_ms=_horizon(before), refused=refused
            )
        touched = [*nodes.touched, *_store(connection, intake.with_grown(grown), rev)]
        # A new fleet is never deferred: installed time must be tiled at every revision.
        book = book or bool(nodes.touched)
        if not book:
            planned = [plan.span for plan in (*intake.plans, *intake.superseded_plans)]
            progress.defer(connection, [*touched, *planned], rev)
        words = [s.said for s in batch.statements] + list(batch.nodes)
        seen = act.now_ms if seen_ms is None else min(act.now_ms, seen_ms)
        digest = revisions.digest(words)
        done = finish(connection, act, rev, before, touched, digest, book=book, until_ms=until_ms, seen_ms=seen)
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
    """Stores rates. Prices change no entry, so nothing is booked; booked time that has a price keeps it.

    Raises:
        BadInput: a line a fault, or where a closed month would have another price; then nothing is stored.
    """
    with engine.begin() as connection:
        revisions.lock_writer(connection)
        rev, before = next_revision(connection)
        stored = rates.read(connection, rev)
        found = rates.sort_out(stored, specs)
        wanted = [*(rate for rate in stored if rate not in found.ended), *found.fresh]
        findings = (
            books.rates_touching_closed(connection, specs)
            or [*found.findings, *prices.unclear(connection, wanted, found.fresh, rev)]
            or prices.moved(connection, stored, wanted, _horizon(before), rev)
        )
        if findings:
            raise bad_rows(findings)
        if not found.fresh:
            return Done(rev - 1, False, rates_repeated=found.repeated, horizon_ms=_horizon(before))
        rates.change(connection, found.ended, found.fresh, rev)
        priced = [(rate.start_ms, rate.end_ms) for rate in found.fresh]
        done = finish(connection, act, rev, before, priced, revisions.digest(specs), book=False)
        return replace(done, rates_added=len(found.fresh), rates_repeated=found.repeated)


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
        rev, before = next_revision(connection)
        touched: list[Span] = [(0, None)] if window is None else [(window.start_ms, window.end_ms)]
        return finish(connection, act, rev, before, touched, revisions.digest([]), until_ms=until_ms)


def next_revision(connection: Connection) -> tuple[int, Revision | None]:
    """Gives the number of the revision to be written, and the one before it."""
    before = revisions.latest(connection)
    return (before.rev + 1 if before else 1), before


def _horizon(before: Revision | None) -> int | None:
    return before.horizon_ms if before else None


def _store(connection: Connection, intake: Intake, rev: int) -> list[Span]:
    """Writes evidence, allocations and plans; gives the spans whose booking may change.

    A plan touches no time by itself: what its occurrences touch is known when they are unfolded.
    """
    plans.write(connection, intake.plans, intake.superseded_plans, rev)
    evidence.write_allocations(connection, intake.allocations, intake.superseded_allocations, rev)
    if intake.evidence:
        evidence.write(connection, intake.evidence, rev)
    held = [(a.start_ms, a.end_ms) for a in (*intake.allocations, *intake.superseded_allocations)]
    return held + [(e.start_ms, e.end_ms) for e in (*intake.evidence, *intake.superseded)]


def finish(
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
    """Books what was touched, corrects the books of closed months and writes the revision: the end of every act.

    A mere derivation that changed nothing writes none.

    Booking unfolds the plans of maintenance up to the new horizon first, then groups what was said, then derives.

    Args:
        connection: the act's one transaction, under the writer's lock.
        act: who, when, why.
        rev: the revision being written.
        before: the one before it.
        touched: the time whose booking or price may change; its whole days are derived.
        digest: of the act's input.
        book: False leaves the booking to a later act.
        until_ms: moves the horizon forward to here.
        seen_ms: how far the input reaches; None means the present.
    """
    old = _horizon(before)
    booked = _Booked(old, list(touched))
    if book:
        _book(connection, act, rev, booked, until_ms, seen_ms)
    posted = books.post_corrections(connection, rev, booked.spans)
    nothing_new = not booked.said and (not touched or act.kind == "derive")
    unchanged = not (booked.closed or booked.opened or posted) and booked.horizon_ms == old
    if act.kind in ("derive", "observe") and nothing_new and unchanged:
        revisions.refuse_orphans(connection, rev)
        return Done(rev - 1, False, horizon_ms=old)
    revision = Revision(
        rev,
        to_datetime(act.now_ms),
        act.kind,
        act.author,
        f"gpu-minutes {__version__}",
        booked.horizon_ms,
        digest,
        act.reason,
        b"",
    )
    revisions.add(connection, revision, booked.closed, booked.opened)
    if len(booked.opened) + len(booked.closed) >= _ANALYSE_ROWS:
        revisions.analyse(connection)
    return Done(
        rev, True, closed=len(booked.closed), opened=len(booked.opened), corrections=posted,
        horizon_ms=booked.horizon_ms, unfolded=booked.unfolded,
    )  # fmt: skip


@dataclass(slots=True)
class _Booked:
    """What an act has booked so far: the horizon, the spans that it touched, and what grouping and plans added."""

    horizon_ms: int | None
    spans: list[Span]
    said: list[Span] = field(default_factory=list)
    closed: dict[Entry, int] = field(default_factory=dict)
    opened: list[Entry] = field(default_factory=list)
    unfolded: int = 0


def _book(
    connection: Connection, act: Act, rev: int, booked: _Booked, until_ms: int | None, seen_ms: int | None
) -> None:
    """Unfolds plans, groups, and derives what was touched; where nothing fixes a horizon yet, it only groups."""
    old = booked.horizon_ms
    reach = revisions.wanted_horizon(connection, act.now_ms if seen_ms is None else seen_ms)
    wanted = [h for h in (old, until_ms, reach) if h is not None]
    first = fleet.since_ms(connection, rev)
    if not wanted or first is None:
        booked.said = group_fresh(connection, rev) + progress.take_deferred(connection, rev)
        return
    booked.horizon_ms = horizon_ms = max(wanted)
    planned, booked.unfolded = unfold(connection, rev, old, horizon_ms)
    booked.said = planned + group_fresh(connection, rev) + progress.take_deferred(connection, rev)
    booked.spans += [*booked.said, (first if old is None else old, horizon_ms)]
    tenure = fleet.tenure_blocks(connection, rev)
    booked.closed, booked.opened = rebook(connection, booked.spans, tenure, first, horizon_ms, rev)
