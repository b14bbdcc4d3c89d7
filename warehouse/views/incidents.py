"""Incidents: the list by cost, and one incident with its evidence, its phases and its money."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, Row, text

from warehouse.causes import load_causes
from warehouse.model.cause import known
from warehouse.model.slots import SlotRanges, count, normalise
from warehouse.model.state import PPM
from warehouse.model.time import format_instant
from warehouse.store.rows import multirange
from warehouse.views import counts, exact, rulings
from warehouse.views.goodput import cost_fields
from warehouse.views.question import Question
from warehouse.views.tiles import Extents, IncidentArea, of_incidents
from warehouse.views.where import Nodes

# Incidents by their number, or those that the window saw; then all evidence of each, with a site what touches it.
_SITE = """(cast(:site_slots as int4multirange) is null
  or ev.slots::int4multirange && cast(:site_slots as int4multirange))"""
_SEEN = f"""
select distinct ie.incident_id from evidence ev join incident_evidence ie on ie.evidence_id = ev.id
  and ie.revs @> cast(:rev as bigint)
where {counts.IN_WINDOW} and {_SITE}
"""
_EVIDENCE = f"""
with wanted as ({{wanted}}),
ev as materialized (
  select ie.incident_id, ev.id, ev.slots::int4multirange as slots, ev.state::text as state, ev.start_at, ev.end_at
  from wanted w join incident_evidence ie on ie.incident_id = w.incident_id and ie.revs @> cast(:rev as bigint)
  join evidence ev on ev.id = ie.evidence_id where {_SITE})
"""
_MEMBERS = """
select ev.incident_id, min(ms_of(ev.start_at)) as start_ms, bool_or(ev.end_at is null) as open,
  max(ms_of(ev.end_at)) as end_ms, count(*) as evidence, array_agg(distinct ev.state) as states, min(ic.cause) as cause
from ev join incident_cause ic on ic.incident_id = ev.incident_id and ic.role = 'charged'
  and ic.revs @> cast(:rev as bigint)
group by 1
"""
_HIT = f"""
select ev.incident_id, lower(r) as low, upper(r) as high
from ev join {counts.BLOCKS} on {counts.HIT}, unnest(ev.slots * b.slots) as r
"""
_NAMED = """
select ev.incident_id, lower(r) as low, upper(r) as high from ev, unnest(ev.slots) as r
where ev.incident_id = any(:ids)
"""


def incidents(connection: Connection, question: Question) -> list[dict[str, object]]:
    """Gives a dict per incident that the window saw, the costliest first; figures are clipped to the window.

    Where amounts are in several currencies, or nothing has a price, what lost most GPU time comes first.
    """
    return _summaries(connection, question, None, _Money(connection, question, None))


def incident(connection: Connection, question: Question, incident_id: int) -> dict[str, object] | None:
    """Gives one incident with its evidence, phases and prices; None for an unknown number.

    An incident that was merged gives only `id` and `merged_into`. Law: the phases sum to the incident's total.
    """
    merged = connection.execute(
        text(
            "select case when merged_rev <= cast(:rev as bigint) then merged_into end as merged_into "
            "from incident where id = :id"
        ),
        {"id": incident_id, "rev": question.rev},
    ).first()
    if merged is None:
        return None
    money = _Money(connection, question, incident_id)
    found = _summaries(connection, question, incident_id, money)
    if not found:
        return {"id": incident_id, "merged_into": merged.merged_into} if merged.merged_into else None
    cause = known(load_causes(), str(found[0]["cause"]))
    return {
        **found[0],
        "cause_detail": {
            "code": cause.code,
            "title": cause.title,
            "owner": cause.owner,
            "signature": cause.signature,
            "first_step": cause.first_step,
            "source": cause.source,
        },
        "contributing": _contributing(connection, question, incident_id),
        **rulings.of_incident(connection, question.rev, incident_id),
        "phases": _phases(money, question),
        "prices": _prices(money, question),
        "jobs": _jobs(connection, question, incident_id),
        "evidence": (said := _evidence(connection, question, incident_id)),
        "edges": _edges(said),
        "revision": question.rev,
        "engine": question.engine,
        "horizon": format_instant(question.horizon_ms),
        "window": {"from": format_instant(question.window.start_ms), "to": format_instant(question.window.end_ms)},
        "price_card": question.card,
        **({} if question.site is None else {"site": question.site}),
        **({"currencies": list(question.currencies)} if len(question.currencies) > 1 else {}),
    }


def _parameters(question: Question, incident_id: int | None) -> dict[str, object]:
    return counts.parameters(question) | {
        "id": incident_id,
        "site_slots": None if question.slots is None else multirange(question.slots),
    }


@dataclass(slots=True)
class _Sum:
    """GPU time of an incident or a phase, and its money per currency; all exact, see `tiles.Area`."""

    gpu_ppm: int = 0
    lost: int = 0
    priced_lost: int = 0
    money: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, area: IncidentArea) -> None:
        self.gpu_ppm += area.gpu_ppm
        self.lost += area.lost
        if area.price is not None:
            self.priced_lost += area.lost
            self.money[area.price.currency] += area.lost * area.price.units


class _Money:
    """What is charged to incidents: the areas by incident, state and price."""

    def __init__(self, connection: Connection, question: Question, incident_id: int | None) -> None:
        self.areas, self.extents = of_incidents(connection, question, incident_id)
        self.of: dict[int, _Sum] = defaultdict(_Sum)
        for area in self.areas:
            self.of[area.incident_id].add(area)


def _summaries(
    connection: Connection, question: Question, incident_id: int | None, money: _Money
) -> list[dict[str, object]]:
    values = _parameters(question, incident_id)
    chosen = _EVIDENCE.format(wanted=_SEEN if incident_id is None else "select cast(:id as bigint) as incident_id")
    rows = connection.execute(text(chosen + _MEMBERS), values).all()
    hit = _slots(connection.execute(text(chosen + _HIT), values))
    # Where nothing installed was hit, an incident is named by what its evidence says.
    elsewhere = [row.incident_id for row in rows if row.incident_id not in hit]
    said = _slots(connection.execute(text(chosen + _NAMED), values | {"ids": elsewhere})) if elsewhere else {}
    touched = None if incident_id is None else normalise(part for of in (hit, said) for s in of.values() for part in s)
    names = Nodes(connection, question.rev, touched)
    found = [
        _summary(row, hit.get(row.incident_id, ()), said.get(row.incident_id, ()), names, money, question)
        for row in rows
    ]
    return sorted(found, key=_costliest)


def _costliest(summary: dict[str, object]) -> tuple[object, ...]:
    """Orders by cost in the one currency, then by what was lost: in several, or without a price, by that alone."""
    cost = Decimal(str(summary["cost_of_loss"] or 0))
    return -cost, -int(str(summary["lost_gpu_ms"])), str(summary["start"]), int(str(summary["id"]))


def _slots(rows: Iterable[Any]) -> dict[int, SlotRanges]:
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, low, high in rows:
        found[number].append((low, high))
    return {number: normalise(ranges) for number, ranges in found.items()}


def _summary(
    row: Row[Any], hit: SlotRanges, said: SlotRanges, names: Nodes, money: _Money, question: Question
) -> dict[str, object]:
    nodes = names.of(hit or said)
    cause = known(load_causes(), row.cause)
    charged = money.of[row.incident_id] if row.incident_id in money.of else _Sum()
    lost_ms = exact.rounded(charged.lost, exact.LOST)
    return {
        "id": row.incident_id,
        "ref": f"INC-{row.incident_id}",
        "title": f"{cause.title}: {names.describe(nodes, count(hit))}",
        "cause": row.cause,
        "owner": cause.owner,
        "states": sorted(row.states),
        "status": "open" if row.open else "closed",
        "start": format_instant(row.start_ms),
        "end": None if row.open else format_instant(row.end_ms),
        "duration_ms": None if row.open else row.end_ms - row.start_ms,
        "gpus": count(hit),
        "nodes": nodes,
        "evidence_count": row.evidence,
        "gpu_ms": exact.rounded(charged.gpu_ppm, PPM),
        "lost_gpu_ms": lost_ms,
        **cost_fields(_amounts(charged, question), question),
        "unpriced_lost_gpu_ms": lost_ms - exact.rounded(charged.priced_lost, exact.LOST),
        "currency": question.currency,
    }


def _amounts(charged: _Sum, question: Question) -> dict[str, str]:
    """Gives an incident's cost, rounded by itself: the same in a list, on its page and in its report."""
    if not charged.gpu_ppm and question.currency is not None:
        return {question.currency: str(exact.amount(0, question.currency))}
    return {currency: str(exact.amount(money, currency)) for currency, money in charged.money.items()}


def _phases(money: _Money, question: Question) -> list[dict[str, object]]:
    """Gives a row per state in order of first appearance: when, how much, at what cost; they sum to the total."""
    sums: dict[str, _Sum] = defaultdict(_Sum)
    for area in money.areas:
        sums[area.state].add(area)
    when: Extents = money.extents
    times = {state: when[number, state] for number, state in when}
    states = sorted(sums, key=lambda state: (times[state][0], state))
    gpu_ms = exact.parts([sums[state].gpu_ppm for state in states], PPM)
    lost = exact.parts([sums[state].lost for state in states], exact.LOST)
    shown: dict[str, dict[str, str]] = {state: {} for state in states}
    for currency in question.currencies:
        amounts = exact.amounts([sums[state].money.get(currency, 0) for state in states], currency)
        for state, amount in zip(states, amounts, strict=True):
            if currency in sums[state].money:
                shown[state][currency] = str(amount)
    return [
        {
            "state": state,
            "start": format_instant(times[state][0]),
            "end": format_instant(times[state][1]),
            "gpu_ms": whole_ms,
            "lost_gpu_ms": lost_ms,
            **cost_fields(shown[state], question),
        }
        for state, whole_ms, lost_ms in zip(states, gpu_ms, lost, strict=True)
    ]


def _prices(money: _Money, question: Question) -> list[dict[str, object]]:
    """Gives which rate priced how much of the loss, so that a reader can redo it; the rows sum to the total."""
    rates = {rate.id: rate for rate in question.rates}
    lost: dict[int | None, int] = defaultdict(int)
    for area in money.areas:
        if area.price is not None:
            lost[area.price.rate_id] += area.lost
    rows = []
    for currency in question.currencies:
        used = [rates[number] for number in lost if rates[number].currency == currency]
        used.sort(key=lambda rate: (rate.model, rate.contract or "", rate.start_ms))
        exact_lost = [lost[rate.id] for rate in used]
        units = [lost[rate.id] * exact.rate_units(rate.per_gpu_hour) for rate in used]
        shown = zip(used, exact.parts(exact_lost, exact.LOST), exact.amounts(units, currency), strict=True)
        for rate, lost_ms, amount in shown:
            row: dict[str, object] = {
                "model": rate.model,
                "effective_from": format_instant(rate.start_ms),
                "per_gpu_hour": f"{rate.per_gpu_hour.normalize():f}",
                "lost_gpu_ms": lost_ms,
                "cost_of_loss": str(amount),
            }
            # Only where they say something: without them every row is in the answer's currency and of no contract.
            row |= {"currency": currency} if len(question.currencies) > 1 else {}
            rows.append(row | ({"contract": rate.contract} if rate.contract else {}))
    return rows


def _contributing(connection: Connection, question: Question, incident_id: int) -> list[str]:
    return list(
        connection.execute(
            text(
                "select cause from incident_cause where incident_id = :id and role = 'contributing' "
                "and revs @> cast(:rev as bigint) order by 1"
            ),
            {"id": incident_id, "rev": question.rev},
        ).scalars()
    )


def _jobs(connection: Connection, question: Question, incident_id: int) -> list[str]:
    return list(
        connection.execute(
            text(
                "select distinct a.job from ledger_entry e "
                "join allocation a on a.id = any(coalesce(e.sharers, array[e.allocation_id])) "
                "where e.incident_id = :id and e.revs @> cast(:rev as bigint) and e.allocation_id is not null "
                "and (cast(:site_slots as int4multirange) is null "
                "or cast(:site_slots as int4multirange) && e.slots::int4range) order by 1"
            ),
            _parameters(question, incident_id),
        ).scalars()
    )


def _evidence(connection: Connection, question: Question, incident_id: int) -> list[dict[str, object]]:
    rows = connection.execute(
        text(
            "select ev.*, ms_of(ev.start_at) as start_ms, ms_of(ev.end_at) as end_ms, "
            "ms_of(ev.earliest_start_at) as earliest_start_ms, ms_of(ev.earliest_end_at) as earliest_end_ms, "
            "slot_count(ev.slots) as gpus from incident_evidence ie "
            "join evidence ev on ev.id = ie.evidence_id "
            f"where ie.incident_id = :id and ie.revs @> cast(:rev as bigint) and {_SITE} "
            "order by ev.start_at, ev.source, ev.key"
        ),
        _parameters(question, incident_id),
    )
    return [
        {
            "source": row.source,
            "id": row.key,
            "revision": row.revision,
            "state": row.state,
            "cause": row.cause,
            "start": format_instant(row.start_ms),
            "end": None if row.end_ms is None else format_instant(row.end_ms),
            "scope": row.scope,
            "basis": row.basis,
            "detail": row.detail,
            "job": row.job,
            "gpus": row.gpus,
            "start_early_ms": None if row.earliest_start_ms is None else row.start_ms - row.earliest_start_ms,
            "end_early_ms": None if row.earliest_end_ms is None else row.end_ms - row.earliest_end_ms,
        }
        for row in rows
    ]


def _edges(evidence: Sequence[Mapping[str, object]]) -> dict[str, int | None]:
    """Gives how much GPU time lies between what the samples prove and what they leave open, None where none says so.

    An episode is dated by the first sample that shows it and the first that does not; it may have begun, and ended, at
    any time after the sample before. Pieces that overlap are each counted: these are bounds, never a sum of losses.
    """
    return {
        f"{edge}_gpu_ms": sum(int(str(e["gpus"])) * int(str(e[f"{edge}_ms"])) for e in known) if known else None
        for edge in ("start_early", "end_early")
        for known in [[e for e in evidence if e[f"{edge}_ms"] is not None]]
    }
