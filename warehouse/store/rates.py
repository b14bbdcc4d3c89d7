"""Rate cards: one price at a time for a model, contract and currency on a card, with revisions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

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


@dataclass(frozen=True, slots=True)
class Sorted:
    """What of a file is new, what ends a stored rate, how much was known, and what contradicts the stored rates."""

    fresh: tuple[RateSpec, ...]
    ended: tuple[RateSpec, ...]
    repeated: int
    findings: tuple[Finding, ...]


def sort_out(stored: Iterable[RateSpec], rates: Iterable[RateSpec]) -> Sorted:
    """Tells new rates from known ones; a known one may only get the end that it lacked."""
    standing = list(stored)
    fresh: list[RateSpec] = []
    ended: list[RateSpec] = []
    repeated = 0
    for rate in dict.fromkeys(rates):
        if rate in standing:
            repeated += 1
            continue
        known = next((s for s in standing if s == replace(rate, end_ms=None)), None)
        if known is not None:
            # The same price with the end that it lacked: what it said until then stays.
            ended.append(known)
            standing.remove(known)
        fresh.append(rate)
    findings = [finding for rate in fresh if (finding := _clash(rate, standing)) is not None]
    return Sorted(tuple(fresh), tuple(ended), repeated, tuple(findings))


def _clash(rate: RateSpec, stored: Iterable[RateSpec]) -> Finding | None:
    clash = next((s for s in stored if s.line == rate.line and s.overlaps(rate)), None)
    if clash is None:
        return None
    until = "further notice" if clash.end_ms is None else format_instant(clash.end_ms)
    return Finding(
        str(rate.line),
        f"from {format_instant(rate.start_ms)} overlaps the stored {clash.per_gpu_hour.normalize():f} "
        f"from {format_instant(clash.start_ms)} until {until}; load that one with an end first, "
        "or put this one in its place backwards: gpu-minutes rates reprice",
    )


def change(connection: Connection, closed: Iterable[RateSpec], opened: Iterable[RateSpec], rev: int) -> None:
    """Closes stored rates and opens others at a revision; closes first, so that the constraint can stay immediate."""
    ids = [rate.id for rate in closed]
    if ids:
        connection.execute(
            text("update rate set revs = int8range(lower(revs), :rev) where upper_inf(revs) and id = any(:ids)"),
            {"rev": rev, "ids": ids},
        )
    for rate in opened:
        _insert(connection, rate, rev)


def _insert(connection: Connection, rate: RateSpec, rev: int) -> None:
    connection.execute(
        text(
            "insert into rate (line_id, per_gpu_hour, effective, basis, revs) "
            "values (:line, :price, :effective, :basis, :revs)"
        ),
        {
            "line": _line(connection, rate, rev),
            "price": rate.per_gpu_hour,
            "effective": span(rate.start_ms, rate.end_ms),
            "basis": rate.basis,
            "revs": revisions_from(rev),
        },
    )


def _line(connection: Connection, rate: RateSpec, rev: int) -> int:
    """Gives the number of a rate's line, a new one where it is the first."""
    named = rate.line._asdict()
    line: int | None = connection.execute(
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
    assert line is not None
    return line
