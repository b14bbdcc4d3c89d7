"""The proof that every entry names its holders as their allocations say: shares add up, contested time exceeds."""

from __future__ import annotations

from sqlalchemy import Connection, text

from warehouse.model.state import PPM
from warehouse.model.time import format_instant
from warehouse.store.revisions import Revision

# One allocation a job, each over the whole entry; a share of NULL is the whole. Above the whole nobody holds it.
_BROKEN = f"""
select lower(e.slots) as slot, ms_of(lower(e.during)) as at_ms, e.allocation_id, e.held_ppm, h.ppm,
  coalesce(h.covers, false) and h.found = h.jobs and h.found = h.named as covers
from ledger_entry e cross join lateral (
  select count(*) as found, count(distinct a.job) as jobs, sum(coalesce(a.share_ppm, {PPM})) as ppm,
    coalesce(cardinality(e.sharers), num_nonnulls(e.allocation_id)) as named,
    bool_and(a.slots::int4multirange @> e.slots::int4range
      and tstzrange(a.start_at, a.end_at) @> e.during::tstzrange) as covers
  from allocation a where a.id = any(coalesce(e.sharers, array[e.allocation_id::bigint]))) h
where e.revs @> cast(:rev as bigint)
  and (e.sharers is not null or e.allocation_id is not null or e.held_ppm is not null or e.rule = 'conflict')
  and not (coalesce(h.covers, false) and h.found = h.jobs and h.found = h.named and case
    when e.allocation_id is null then h.ppm > {PPM} and e.held_ppm is null
    when e.sharers is null then h.ppm = {PPM} and e.held_ppm is null and e.rule <> 'conflict'
    else h.ppm <= {PPM} and e.held_ppm is not distinct from nullif(h.ppm, {PPM})
      and e.allocation_id = any(e.sharers) and e.rule <> 'conflict' end)
limit 1
"""  # noqa: S608 - figures of our own


def shares_hold(connection: Connection, revision: Revision) -> str | None:
    """Gives where an entry names holders that its allocations do not bear out, None where all do.

    Law: the holders of an entry are one allocation a job and cover it; what is held is the sum of their shares; an
    entry without a holder that has sharers, and every entry by the rule `conflict`, is claimed above the whole.
    """
    row = connection.execute(text(_BROKEN), {"rev": revision.rev}).first()
    if row is None:
        return None
    where = f"slot {row.slot} at {format_instant(row.at_ms)}"
    if not row.covers:
        return f"{where} names holders whose allocations do not cover it, one for each job"
    if row.allocation_id is None:
        return f"{where} is booked as contested, but its jobs claim {row.ppm} millionths of it, no more than the whole"
    booked = PPM if row.held_ppm is None else row.held_ppm
    return f"{where} is booked as held to {booked} millionths, but its jobs hold {row.ppm}"
