"""The cost of all booked loss by given prices: the same sum as the headline of `goodput`, for any set of rates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from sqlalchemy import Connection, text

from warehouse.ledger.classes import PPM2, charged, split
from warehouse.ledger.price import cost
from warehouse.ledger.tariff import PriceBlock
from warehouse.model.state import PPM, State
from warehouse.store.rows import instant, multirange

_BY_BLOCK = """
with block as (
  select * from unnest(cast(:numbers as int[]), cast(:slots as int4multirange[]), cast(:starts as timestamptz[]),
    cast(:ends as timestamptz[])) as b (number, slots, start_at, end_at))
select b.number, e.state::text as state, e.incident_id is not null as linked,
  case when e.allocation_id is not null then e.held_ppm end as held_ppm, sum(size.gpu_ms) as gpu_ms,
  sum(size.gpu_ms * e.lost_ppm) as lost_ms_ppm
from block b join ledger_entry e on e.revs @> cast(:rev as bigint) and int4multirange(e.slots) && b.slots
    and e.area && area_of(range_merge(b.slots), tstzrange(b.start_at, b.end_at)),
  lateral (select slot_count(int4multirange(e.slots) * b.slots)::numeric
    * span_ms(e.during * tstzrange(b.start_at, b.end_at)) as gpu_ms) as size
group by 1, 2, 3, 4
"""


@dataclass(frozen=True, slots=True)
class Loss:
    """Exact cost of loss per currency; `priced` is the lost GPU time that has a price, in GPU-ms."""

    costs: Mapping[str, Fraction] = field(default_factory=dict)
    priced: Fraction = Fraction(0)


def cost_of_loss(connection: Connection, blocks: Sequence[PriceBlock], rev: int) -> Loss:
    """Gives what all loss that was booked at a revision costs by some price blocks, per currency, exactly."""
    rows = connection.execute(
        text(_BY_BLOCK),
        {
            "rev": rev,
            "numbers": list(range(len(blocks))),
            "slots": [multirange(block.slots) for block in blocks],
            "starts": [instant(block.start_ms) for block in blocks],
            "ends": [instant(block.end_ms) for block in blocks],
        },
    )
    return total(
        (
            charged(split(State(r.state), r.linked, int(r.gpu_ms), int(r.lost_ms_ppm), r.held_ppm)),
            blocks[r.number],
        )
        for r in rows
    )


def total(parts: Iterable[tuple[int, PriceBlock]]) -> Loss:
    """Gives the cost of parts of loss, each in GPU-ms x 1,000,000 x 1,000,000 with the block that prices it."""
    costs: dict[str, Fraction] = defaultdict(Fraction)
    priced = 0
    for lost, block in parts:
        costs[block.currency] += cost(lost, block.per_gpu_hour) / PPM
        priced += lost
    return Loss(dict(costs), Fraction(priced, PPM2))
