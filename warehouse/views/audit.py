"""The audit log: every act on the ledger with its place in the chain, and whether a published place still fits."""

from __future__ import annotations

from sqlalchemy import Connection, text

from warehouse.model.time import format_instant, from_datetime
from warehouse.views import rulings

# Counted by the edges of `revs`: what a revision opened and closed never changes after it.
_LOG = """
with opened as (
  select lower(revs) as rev, count(*) as entries from ledger_entry
  where lower(revs) between :first and :last group by 1),
closed as (
  select upper(revs) as rev, count(*) as entries from ledger_entry
  where not upper_inf(revs) and upper(revs) between :first and :last group by 1),
posted as (
  select lower(revs) as rev, count(*) as postings from posting where lower(revs) between :first and :last group by 1)
select r.*, coalesce(o.entries, 0) as opened, coalesce(c.entries, 0) as closed, coalesce(p.postings, 0) as posted
from revision r
left join opened o on o.rev = r.rev left join closed c on c.rev = r.rev left join posted p on p.rev = r.rev
where r.rev between :first and :last order by r.rev
"""


def audit(connection: Connection, last: int, first: int = 1) -> list[dict[str, object]]:
    """Gives a dict per act from one revision to another, the oldest first.

    `entries_opened` and `entries_closed` count the ledger entries that it wrote and superseded, `postings` the rows
    that it wrote into the books of months; `chain` is the value of the hash chain, in hex; `what` says what was ruled,
    None for other acts.
    """
    ruled = rulings.by_revision(connection, first, last)
    return [
        {
            "revision": row.rev,
            "at": format_instant(from_datetime(row.recorded_at)),
            "kind": row.kind,
            "author": row.author,
            "what": ruled.get(row.rev),
            "reason": row.reason,
            "entries_opened": row.opened,
            "entries_closed": row.closed,
            "postings": row.posted,
            "engine": row.engine,
            "chain": row.chain.hex(),
        }
        for row in connection.execute(text(_LOG), {"first": first, "last": last})
    ]


def chain_at(connection: Connection, rev: int) -> str | None:
    """Gives the stored chain value of a revision in hex, None where there is no such revision."""
    found: bytes | None = connection.execute(
        text("select chain from revision where rev = :rev"), {"rev": rev}
    ).scalar_one_or_none()
    return None if found is None else found.hex()
