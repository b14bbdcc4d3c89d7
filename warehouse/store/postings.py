"""Postings: the money of closed months as rows, written once; what the ledger gives is compared with what stands.

A key is what a row of money is about: day, card, currency, model, contract, holder, state, cause, incident and price.
Two rates that say the same price are one key: which row said it moves no money.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, text

from warehouse.ledger.priced import InstalledBlock
from warehouse.model.fleet import Site
from warehouse.model.time import Window
from warehouse.store.held import HELD
from warehouse.store.rows import instant, revisions_from

Day = tuple[str, Window]

# The planner counts pages and not what a large closing did to them.
_ANALYSE_ROWS = 1_000

_NAMES = "charge_day, card, currency, model, contract, tenant, state, cause, incident_id, per_gpu_hour"
# Unpriced time has no money, so that its currency is a form and no part of the key.
_KEY = _NAMES.replace("currency", "case when per_gpu_hour is null then null else currency end")

# What the ledger gives, by key. Each instant of a slot lies in one tile, one block of a card and one day, and its
# holders' ppm sum to a million. Sums are of integers; the decimal point is moved at the end and nothing is divided.
# Parts are made before they are sorted: a block's slots may be thousands of ranges, too much to sort with.
_GIVEN = f"""
with block as materialized (
  select card, cast(slots as int4multirange) as slots, tstzrange(start_at, end_at) as during, model, contract, currency,
    per_gpu_hour, rate_id
  from unnest(cast(:cards as text[]), cast(:slots as text[]), cast(:block_starts as timestamptz[]),
    cast(:block_ends as timestamptz[]), cast(:models as text[]), cast(:contracts as text[]),
    cast(:currencies as text[]), cast(:prices as numeric[]), cast(:rates as bigint[]))
    as b (card, slots, start_at, end_at, model, contract, currency, per_gpu_hour, rate_id)),
tile as (
  select e.slots::int4range as slots, e.during * tstzrange(d.start_at, d.end_at) as during, e.state::text as state,
    e.lost_ppm, e.cause, e.incident_id, e.evidence_id, e.basis, e.allocation_id, e.sharers, e.held_ppm
  from unnest(cast(:starts as timestamptz[]), cast(:ends as timestamptz[])) as d (start_at, end_at)
  join ledger_entry e on e.area && area_of(int4range(:low, :high), tstzrange(d.start_at, d.end_at))
    and e.revs @> cast(:rev as bigint)),
{HELD},
part as materialized (
  select (cast(:days as date[]))[width_bucket(lower(h.during), cast(:starts as timestamptz[]))] as charge_day,
    b.card, b.currency, b.model, b.contract, h.tenant, h.state, h.cause, h.incident_id, b.per_gpu_hour, b.rate_id,
    h.lost_ppm, h.ppm::numeric * span_ms(h.during * b.during) * case when h.slots <@ b.slots
      then upper(h.slots) - lower(h.slots) else slot_count(b.slots * int4multirange(h.slots)) end as gpu_ms_ppm
  from held h join block b on b.slots && h.slots and b.during && h.during),
given as (
  select {_NAMES}, min(rate_id) as rate_id, sum(gpu_ms_ppm) * 0.000001 as gpu_ms,
    sum(gpu_ms_ppm * lost_ppm) * 0.000000000001 as lost_gpu_ms
  from part group by {_NAMES})
"""

_COLUMNS = f"site_id, billing, charge, kind, reverses, {_NAMES}, rate_id, gpu_ms, lost_gpu_ms, revs"
_ORDER = "charge_day, card, state, model, contract, tenant, cause, incident_id, per_gpu_hour"

_USAGE = f"""{_GIVEN}
insert into posting ({_COLUMNS})
select :site, :charge, :charge, 'usage', null, {_NAMES}, rate_id, gpu_ms, lost_gpu_ms, :revs from given
order by {_ORDER}
"""

# A row stands until another takes it back; a key that sums to something else than the ledger gives is taken back and
# written anew, both in full.
_CORRECTIONS = f"""{_GIVEN},
standing as (
  select p.* from posting p where p.site_id = :site and p.charge = :charge and p.card = any(:named)
    and p.charge_day = any(cast(:days as date[])) and p.reverses is null and not exists (
      select 1 from posting r where r.site_id = :site and r.charge = :charge and r.reverses = p.id)),
moved as (
  select *, sum(gpu_ms) over k as gpu_ms_moved, sum(lost_gpu_ms) over k as lost_moved from (
    select null::bigint as reverses, {_NAMES}, rate_id, gpu_ms, lost_gpu_ms from given
    union all select id, {_NAMES}, rate_id, -gpu_ms, -lost_gpu_ms from standing) as both_sides
  window k as (partition by {_KEY}))
insert into posting ({_COLUMNS})
select :site, :billing, :charge, 'correction', reverses, {_NAMES}, rate_id, gpu_ms, lost_gpu_ms, :revs
from moved where gpu_ms_moved <> 0 or lost_moved <> 0 order by {_ORDER}, reverses nulls last
"""

_BREAK = f"""{_GIVEN}
select {_KEY.replace("end", "end as currency", 1)}, sum(gpu_ms) as gpu_ms, sum(lost_gpu_ms) as lost_gpu_ms from (
  select {_NAMES}, -gpu_ms as gpu_ms, -lost_gpu_ms as lost_gpu_ms from given
  union all select {_NAMES}, gpu_ms, lost_gpu_ms from posting
  where site_id = :site and charge = :charge and revs @> cast(:rev as bigint)) as both_sides
group by {_KEY} having sum(gpu_ms) <> 0 or sum(lost_gpu_ms) <> 0 order by {_ORDER} limit 1
"""


def post_usage(
    connection: Connection, site: Site, charge: str, days: Sequence[Day], blocks: Sequence[InstalledBlock], rev: int
) -> int:
    """Writes what a month's time is worth, by every card of the blocks; gives how many rows."""
    values = _given(site, days, blocks, rev) | {"site": site.id, "charge": charge, "revs": revisions_from(rev)}
    return _written(connection, _USAGE, values)


def post_corrections(
    connection: Connection,
    site: Site,
    billing: str,
    charge: str,
    days: Sequence[Day],
    cards: Sequence[str],
    blocks: Sequence[InstalledBlock],
    rev: int,
) -> int:
    """Writes into the open month `billing` what some days of a closed one are worth now against what stands.

    Each row that no longer holds is taken back (`reverses`), each that holds now is written anew; equal keys write
    nothing. Cards that no block names are left alone. Gives how many rows.
    """
    values = _given(site, days, blocks, rev) | {
        "site": site.id, "charge": charge, "billing": billing, "revs": revisions_from(rev),
        "named": cards,
    }  # fmt: skip
    return _written(connection, _CORRECTIONS, values)


def first_break(
    connection: Connection, site: Site, charge: str, days: Sequence[Day], blocks: Sequence[InstalledBlock], rev: int
) -> Row[Any] | None:
    """Gives the first key whose postings do not sum to what the ledger gives, with the difference; None is none."""
    values = _given(site, days, blocks, rev) | {"site": site.id, "charge": charge}
    return connection.execute(text(_BREAK), values).first()


def cards_posted(connection: Connection, rev: int) -> dict[tuple[int, str, str], str]:
    """Gives (site, month of charge, card) -> a currency of it, for everything that was ever posted at a revision."""
    rows = connection.execute(
        text(
            "select site_id, charge, card, min(currency) as currency from posting "
            "where revs @> cast(:rev as bigint) group by 1, 2, 3"
        ),
        {"rev": rev},
    )
    return {(r.site_id, r.charge, r.card): r.currency for r in rows}


def _written(connection: Connection, statement: str, values: dict[str, object]) -> int:
    count = connection.execute(text(statement), values).rowcount
    if count >= _ANALYSE_ROWS:
        connection.execute(text("analyze posting"))
    return count


def _given(site: Site, days: Sequence[Day], blocks: Sequence[InstalledBlock], rev: int) -> dict[str, object]:
    return {
        "rev": rev,
        "low": site.slots[0][0],
        "high": site.slots[-1][1],
        "days": [day for day, _ in days],
        "starts": [instant(w.start_ms) for _, w in days],
        "ends": [instant(w.end_ms) for _, w in days],
        "cards": [b.card for b in blocks],
        "slots": ["{" + ",".join(f"[{low},{high})" for low, high in b.slots) + "}" for b in blocks],
        "block_starts": [instant(b.start_ms) for b in blocks],
        "block_ends": [instant(b.end_ms) for b in blocks],
        "models": [b.model for b in blocks],
        "contracts": [b.contract for b in blocks],
        "currencies": [b.currency for b in blocks],
        "prices": [b.per_gpu_hour for b in blocks],
        "rates": [b.rate_id for b in blocks],
    }
