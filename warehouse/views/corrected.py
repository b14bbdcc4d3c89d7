"""What one act changed in closed months: its correction rows, by site, month of charge, card and currency."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from fractions import Fraction

from sqlalchemy import Connection, text

from warehouse.ledger.price import displayed
from warehouse.model.state import State, class_of
from warehouse.model.time import MS_PER_HOUR
from warehouse.views.tiles import CHARGED

_ROWS = """
select s.name as site, p.billing, p.charge, p.card, p.currency, p.state, p.incident_id is not null as linked,
  count(*) as postings, coalesce(sum(p.gpu_ms * p.per_gpu_hour), 0) as worth,
  coalesce(sum(p.lost_gpu_ms * p.per_gpu_hour), 0) as lost
from posting p join place s on s.id = p.site_id
where p.kind = 'correction' and lower(p.revs) = cast(:rev as bigint) group by 1, 2, 3, 4, 5, 6, 7
"""


def corrections(connection: Connection, rev: int) -> list[dict[str, object]]:
    """Gives a dict per site, month of charge, card and currency that a revision corrected, in that order.

    `worth` is the change of what all of the month's time is worth, `cost_of_loss` that of the unplanned, planned and
    overhead part of it: each exact until it is rounded here, once.
    """
    rows: dict[tuple[str, str, str, str, str], int] = defaultdict(int)
    worth: dict[tuple[str, str, str, str, str], Fraction] = defaultdict(Fraction)
    loss: dict[tuple[str, str, str, str, str], Fraction] = defaultdict(Fraction)
    for row in connection.execute(text(_ROWS), {"rev": rev}):
        key = (row.site, row.charge, row.card, row.currency, row.billing)
        rows[key] += row.postings
        worth[key] += Fraction(row.worth) / MS_PER_HOUR
        if class_of(State(row.state), row.linked) in CHARGED:
            loss[key] += Fraction(row.lost) / MS_PER_HOUR
    return [
        {
            "site": key[0],
            "charge": key[1],
            "card": key[2],
            "currency": key[3],
            "billing": key[4],
            "postings": rows[key],
            "worth": str(_plain(worth[key], key[3])),
            "cost_of_loss": str(_plain(loss[key], key[3])),
        }
        for key in sorted(rows)
    ]


def _plain(amount: Fraction, currency: str) -> Decimal:
    return displayed(amount, currency) + 0  # no minus before a zero
