"""Rate cards: one price at a time for a model on a card, with revisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection, text

from warehouse.errors import Finding
from warehouse.model.rate import RateSpec
from warehouse.model.time import format_instant
from warehouse.store.rows import revisions_from, span

_READ = """
select r.id, l.card, l.model, l.currency, r.per_gpu_hour, ms_of(lower(r.effective)) as start_ms,
  case when upper_inf(r.effective) then null else ms_of(upper(r.effective)) end as end_ms, l.contract, r.basis
from rate r join rate_line l on l.id = r.line_id where r.revs @> cast(:rev as bigint)
order by l.card, l.model, l.currency, l.contract nulls first, r.effective
"""


def read(connection: Connection, rev: int) -> list[RateSpec]:
    """Gives every rate that stood at a revision."""
    return [
        RateSpec(r.card, r.model, r.currency, r.per_gpu_hour, r.start_ms, r.end_ms, r.contract, r.basis, r.id)
        for r in connection.execute(text(_READ), {"rev": rev})
    ]


def load(connection: Connection, rates: Sequence[RateSpec], rev: int) -> tuple[int, int, list[Finding]]:
    """Adds rates; gives how many are new, how many were known, and the findings: with any, nothing is written."""
    stored = read(connection, rev)
    fresh: list[RateSpec] = []
    ended: list[RateSpec] = []
    findings = []
    repeated = 0
    currencies = {rate.card: rate.currency for rate in stored}
    for rate in dict.fromkeys(rates):
        if rate in stored:
            repeated += 1
            continue
        where = f"card {rate.card}, model {rate.model}"
        if currencies.get(rate.card, rate.currency) != rate.currency:
            findings.append(Finding(where, f"{rate.currency}, but this card is in {currencies[rate.card]}"))
        if (still_open := replace(rate, end_ms=None)) in stored:
            # The same price with the end that it lacked: what it said until then stays.
            ended.append(still_open)
            stored.remove(still_open)
        fresh.append(rate)
    for rate in fresh:
        clash = next((s for s in stored if (s.card, s.model) == (rate.card, rate.model) and s.overlaps(rate)), None)
        if clash is not None:
            until = "further notice" if clash.end_ms is None else format_instant(clash.end_ms)
            findings.append(
                Finding(
                    f"card {rate.card}, model {rate.model}",
                    f"from {format_instant(rate.start_ms)} overlaps the stored {clash.per_gpu_hour.normalize():f} "
                    f"from {format_instant(clash.start_ms)} until {until}; load that one with an end first",
                )
            )
    if not findings:
        for rate in ended:
            _end(connection, rate, rev)
        for rate in fresh:
            _insert(connection, rate, rev)
    return len(fresh), repeated, findings


def _end(connection: Connection, rate: RateSpec, rev: int) -> None:
    connection.execute(
        text(
            "update rate set revs = int8range(lower(rate.revs), :rev) from rate_line l where l.id = rate.line_id "
            "and upper_inf(rate.revs) and l.card = :card and l.model = :model and l.currency = :currency "
            "and l.contract is not distinct from :contract and lower(rate.effective) = :start"
        ),
        {
            "rev": rev,
            "card": rate.card,
            "model": rate.model,
            "currency": rate.currency,
            "contract": rate.contract,
            "start": span(rate.start_ms, None).lower,
        },
    )


def _insert(connection: Connection, rate: RateSpec, rev: int) -> None:
    named = {"card": rate.card, "model": rate.model, "currency": rate.currency, "contract": rate.contract}
    line = connection.execute(
        text(
            "select id from rate_line where card = :card and model = :model and currency = :currency "
            "and contract is not distinct from :contract"
        ),
        named,
    ).scalar_one_or_none()
    if line is None:
        line = connection.execute(
            text(
                "insert into rate_line (card, model, currency, contract, revs) "
                "values (:card, :model, :currency, :contract, :revs) returning id"
            ),
            named | {"revs": revisions_from(rev)},
        ).scalar_one()
    connection.execute(
        text(
            "insert into rate (line_id, per_gpu_hour, effective, basis, revs) "
            "values (:line, :price, :effective, :basis, :revs)"
        ),
        {
            "line": line,
            "price": rate.per_gpu_hour,
            "effective": span(rate.start_ms, rate.end_ms),
            "basis": rate.basis,
            "revs": revisions_from(rev),
        },
    )
