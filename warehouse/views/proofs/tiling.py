"""Laws 1 and 2 instant by instant: no installed instant without an entry, none outside tenure, none with two."""

from __future__ import annotations

from sqlalchemy import Connection, text

from warehouse.model.time import MS_PER_DAY, Window, format_instant
from warehouse.store.revisions import Revision
from warehouse.store.rows import instant
from warehouse.views.proofs.places import slot_name

# A month at a time: enough to pass over the entries seldom, few enough to bound the memory.
_CHUNK_MS = 31 * MS_PER_DAY

_REACH = """
select ms_of(min(at)) as first, ms_of(max(at)) as last from (
  select lower(during) as at from ledger_entry where revs @> cast(:rev as bigint)
  union all select upper(during) from ledger_entry where revs @> cast(:rev as bigint)
  union all select lower(during) from tenure where gpu_id is not null and revs @> cast(:rev as bigint)) as told
"""

# Slots are cut at every edge that an entry or a tenure of the window has, so that a block of them is covered alike;
# of each block the booked time is laid beside the installed time. Nothing here trusts `area` or its index.
_COVERAGE = """
with asked as (select tstzrange(:start, :end) as during),
installed as (
  select unnest(range_agg(int4range(slot, slot + 1))) as slots,
    t.during * w.during * tstzrange(null, :horizon) as during
  from tenure t, asked w where t.gpu_id is not null and t.revs @> cast(:rev as bigint)
    and t.during && w.during group by 2),
booked as (
  select e.slots::int4range as slots, e.during * w.during as during from ledger_entry e, asked w
  where e.revs @> cast(:rev as bigint) and e.during && w.during),
edge as (
  select array_agg(at order by at) as at from (
    select lower(slots) as at from booked union select upper(slots) from booked
    union select lower(slots) from installed union select upper(slots) from installed) as edges),
has as (
  select n, range_agg(b.during) as during from booked b, edge,
    generate_series(width_bucket(lower(b.slots), edge.at), width_bucket(upper(b.slots) - 1, edge.at)) as n group by n),
wants as (
  select n, range_agg(i.during) as during from installed i, edge,
    generate_series(width_bucket(lower(i.slots), edge.at), width_bucket(upper(i.slots) - 1, edge.at)) as n
  where not isempty(i.during) group by n),
differs as (
  select n, coalesce(wants.during, '{}') - coalesce(has.during, '{}') as gap,
    coalesce(has.during, '{}') - coalesce(wants.during, '{}') as beyond
  from has full join wants using (n) where has.during is distinct from wants.during)
select edge.at[n] as slot, edge.at[n + 1] - edge.at[n] as slots, not isempty(gap) as is_gap,
  ms_of(lower(first)) as start_ms, ms_of(upper(first)) as end_ms
from differs cross join edge cross join lateral (
  select part as first from unnest(case when isempty(gap) then beyond else gap end) as part limit 1) as named
order by lower(first), n limit 1
"""

# Two entries that share an instant share a UTC day and a run of 64 slots: those of one such cell are compared. An
# entry that crosses a midnight stands in the cells of all its days. Over all revisions at once.
_TWICE = """
with cell as (
  select e.ctid as row, day, run, e.slots::int4range as slots, e.during::tstzrange as during, e.revs::int8range as revs
  from ledger_entry e,
    generate_series(ms_of(lower(e.during)) / :day, (ms_of(upper(e.during)) - 1) / :day) as day,
    generate_series(lower(e.slots) / 64, (upper(e.slots) - 1) / 64) as run)
select lower(a.slots * b.slots) as slot, ms_of(lower(a.during * b.during)) as at_ms, lower(a.revs * b.revs) as rev
from cell a join cell b on a.day = b.day and a.run = b.run and a.row < b.row
  and a.slots && b.slots and a.during && b.during and a.revs && b.revs
order by 2, 1, 3 limit 1
"""

_AREA_IS_WRONG = """
select lower(slots) as slot, ms_of(lower(during)) as at_ms, lower(revs) as rev from ledger_entry
where area is null or not area ~= area_of(slots::int4range, during::tstzrange) order by 2, 1 limit 1
"""


def covered(connection: Connection, revision: Revision) -> str | None:
    """Lays the booked time of every block of slots beside its installed time up to the horizon: they are the same."""
    reach = connection.execute(text(_REACH), {"rev": revision.rev}).one()
    if reach.first is None:
        return None
    end_ms = max(reach.last, reach.first if revision.horizon_ms is None else revision.horizon_ms)
    for start_ms in range(reach.first, end_ms, _CHUNK_MS):
        window = Window(start_ms, min(start_ms + _CHUNK_MS, end_ms))
        said = _first_difference(connection, revision, window)
        if said is not None:
            return said
    return None


def _first_difference(connection: Connection, revision: Revision, window: Window) -> str | None:
    horizon_ms = window.start_ms if revision.horizon_ms is None else revision.horizon_ms
    found = connection.execute(
        text(_COVERAGE),
        {
            "rev": revision.rev,
            "start": instant(window.start_ms),
            "end": instant(window.end_ms),
            "horizon": instant(horizon_ms),
        },
    ).first()
    if found is None:
        return None
    where = slot_name(connection, revision.rev, found.slot)
    more = f" and {found.slots - 1} slots after it" if found.slots > 1 else ""
    verb = "installed and not booked" if found.is_gap else "booked outside tenure or behind the horizon"
    return f"{where}{more}: {verb} from {format_instant(found.start_ms)} to {format_instant(found.end_ms)}"


def one_state(connection: Connection, revision: Revision) -> str | None:
    """Compares the entries of every revision in pairs, and each with the area by which the database refuses others."""
    twice = connection.execute(text(_TWICE), {"day": MS_PER_DAY}).first()
    if twice is not None:
        where = slot_name(connection, revision.rev, twice.slot)
        return f"{where} is booked twice at {format_instant(twice.at_ms)}, since revision {twice.rev}"
    wrong = connection.execute(text(_AREA_IS_WRONG)).first()
    if wrong is not None:
        where = slot_name(connection, revision.rev, wrong.slot)
        return f"{where} at {format_instant(wrong.at_ms)}: the area of its entry is not that of its slots and time"
    return None
