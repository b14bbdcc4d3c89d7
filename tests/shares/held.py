"""Words for tests of shared GPUs: allocations with a share, and who holds what, on the small ledger."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from sqlalchemy import Engine, text

from tests.store.ledgers import START, held
from warehouse.model.evidence import Allocation
from warehouse.model.state import PPM
from warehouse.model.time import MS_PER_HOUR
from warehouse.store import revisions
from warehouse.store.revisions import Revision
from warehouse.views.conflicts import Conflict, conflicts
from warehouse.views.holders import shares_hold
from warehouse.views.question import ask

# (slot, from hour, to hour, state, rule, first holder, held ppm, all holders as job/attempt)
Tile = tuple[int, float, float, str, str, str | None, int | None, tuple[str, ...]]


def part(share: str, job: str, start: float, end: float | None, scope: str, attempt: int = 1) -> Allocation:
    """Gives an allocation of a share of each GPU, in the words of the file: "0.5"; "1" is the whole."""
    ppm = int(Decimal(share) * PPM)
    return replace(held(job, start, end, scope), attempt=attempt, share_ppm=None if ppm == PPM else ppm)


def tiles(engine: Engine, rev: int | None = None, slots: int = 1) -> list[Tile]:
    """Gives the tiling of the first slots, slot by slot and in hours, joined over midnights; silence is left out."""
    with engine.connect() as connection:
        rows = connection.execute(
            text(
                "select s.slot, ms_of(lower(e.during)) as start_ms, ms_of(upper(e.during)) as end_ms, e.state, e.rule, "
                "a.job, e.held_ppm, array(select h.job || '/' || h.attempt from allocation h "
                "where h.id = any(e.sharers) order by 1) as sharers "
                "from generate_series(0, :slots - 1) as s (slot) join ledger_entry e on e.slots @> s.slot "
                "left join allocation a on a.id = e.allocation_id "
                "where e.revs @> cast(:rev as bigint) and e.rule <> 'silence' order by s.slot, e.during"
            ),
            {"rev": at_revision(engine, rev).rev, "slots": slots},
        ).all()
    found: list[Tile] = []
    for r in rows:
        word = (r.state, r.rule, r.job, r.held_ppm, tuple(r.sharers))
        start, end = ((ms - START) / MS_PER_HOUR for ms in (r.start_ms, r.end_ms))
        if found and found[-1][0] == r.slot and found[-1][2] == start and found[-1][3:] == word:
            found[-1] = (r.slot, found[-1][1], end, *word)
        else:
            found.append((r.slot, start, end, *word))
    return found


def at_revision(engine: Engine, rev: int | None = None) -> Revision:
    with engine.connect() as connection:
        revision = revisions.latest(connection, rev)
    assert revision is not None
    return revision


def contested(engine: Engine, rev: int | None = None) -> list[Conflict]:
    """Gives the contested stretches of all that is booked."""
    revision = at_revision(engine, rev)
    with engine.connect() as connection:
        return conflicts(connection, revision.rev, ask(connection, revision, None, None).window)


def proven(engine: Engine, rev: int | None = None) -> str | None:
    """Gives what the proof of shares says."""
    with engine.connect() as connection:
        return shares_hold(connection, at_revision(engine, rev))
