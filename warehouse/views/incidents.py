"""Incidents: the list by cost, and one incident with its evidence, its phases and its money."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection, Row, text

from warehouse.causes import load_causes
from warehouse.ledger.price import cost, displayed, displayed_parts, largest_remainder
from warehouse.model.cause import known
from warehouse.model.slots import SlotRanges, count
from warehouse.model.state import PPM
from warehouse.model.time import format_instant
from warehouse.store.places import places
from warehouse.store.rows import IN_TIME, instant, slot_ranges
from warehouse.views import rulings
from warehouse.views.question import Question
from warehouse.views.tiles import IN_WINDOW, MODEL_BLOCK

_LIST = f"""
with {MODEL_BLOCK},
ev as (
  select ie.incident_id, ev.* from incident_evidence ie join evidence ev on ev.id = ie.evidence_id
  where ie.revs @> cast(:rev as bigint) and (cast(:id as bigint) is null or ie.incident_id = :id)),
hit as (
  select ev.incident_id, range_agg(r) as slots from ev
  join model_block b on b.slots && ev.slots::int4multirange and b.during && tstzrange(ev.start_at, ev.end_at, '[]'),
    unnest(ev.slots * b.slots) as r
  group by ev.incident_id),
member as (
  select ev.incident_id, min(ev.start_at) as start_at, bool_or(ev.end_at is null) as open, max(ev.end_at) as end_at,
    range_agg(r) as slots, count(distinct ev.id) as evidence, array_agg(distinct ev.state::text) as states,
    bool_or({IN_WINDOW}) as seen
  from ev, unnest(ev.slots::int4multirange) as r group by ev.incident_id)
select m.*, ms_of(m.start_at) as start_ms, ms_of(m.end_at) as end_ms, ic.cause, hit.slots as hit
from member m join incident_cause ic on ic.incident_id = m.incident_id and ic.role = 'charged'
  and ic.revs @> cast(:rev as bigint)
left join hit on hit.incident_id = m.incident_id
where m.seen or cast(:id as bigint) is not null
"""

_LOSS = f"""
with asked as (select tstzrange(:start, :end) as during),
tile as (
  select e.incident_id, e.id, e.state::text as state, int4multirange(e.slots) as slots, e.during * w.during as during,
    e.lost_ppm
  from ledger_entry e, asked w
  where e.revs @> cast(:rev as bigint) and e.{IN_TIME} and e.incident_id is not null
    and (cast(:id as bigint) is null or e.incident_id = :id))
"""
_AREA = """
select incident_id, state, sum(slot_count(slots)::numeric * span_ms(during)) as gpu_ms,
  sum(slot_count(slots)::numeric * span_ms(during) * lost_ppm) as lost_ms_ppm,
  ms_of(min(lower(during))) as start_ms, ms_of(max(upper(during))) as end_ms
from tile group by 1, 2
"""
_PRICED = f""", {MODEL_BLOCK}
select t.incident_id, t.state, b.model, r.per_gpu_hour, ms_of(lower(r.effective)) as effective_ms,
  sum(slot_count(t.slots * b.slots)::numeric * span_ms(t.during * b.during * r.effective)) as gpu_ms,
  sum(slot_count(t.slots * b.slots)::numeric * span_ms(t.during * b.during * r.effective) * t.lost_ppm) as lost_ms_ppm
from tile t join model_block b on b.slots && t.slots and b.during && t.during
join rate_line l on l.model = b.model and l.card = :card
join rate r on r.line_id = l.id and r.revs @> cast(:rev as bigint) and r.effective && (t.during * b.during)
group by 1, 2, 3, 4, 5 order by 1, 2, 3, 5
"""

_NAMED_NODES = 3


def incidents(connection: Connection, question: Question) -> list[dict[str, object]]:
    """Gives a dict per incident that the window saw, the costliest first; figures are clipped to the window."""
    return _summaries(connection, question, None)


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
    found = _summaries(connection, question, incident_id)
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
        "phases": _phases(connection, question, incident_id),
        "prices": _prices(connection, question, incident_id),
        "jobs": _jobs(connection, question, incident_id),
        "evidence": _evidence(connection, question, incident_id),
        "revision": question.rev,
        "engine": question.engine,
        "horizon": format_instant(question.horizon_ms),
        "window": {"from": format_instant(question.window.start_ms), "to": format_instant(question.window.end_ms)},
        "price_card": question.card,
    }


def _parameters(question: Question, incident_id: int | None) -> dict[str, object]:
    return {
        "start": instant(question.window.start_ms),
        "end": instant(question.window.end_ms),
        "rev": question.rev,
        "to_horizon": question.to_horizon,
        "card": question.card,
        "id": incident_id,
    }


def _summaries(connection: Connection, question: Question, incident_id: int | None) -> list[dict[str, object]]:
    values = _parameters(question, incident_id)
    names = _Names(connection, question.rev)
    area = {r.incident_id: r for r in _sum_up(connection.execute(text(_LOSS + _AREA), values))}
    rows = connection.execute(text(_LIST), values).all()
    ids = [row.incident_id for row in rows]
    # Each incident is rounded by itself: its figure is the same in a list, on its page and in its report.
    lost = [round(Fraction(area[i].lost_ms_ppm, PPM)) if i in area else 0 for i in ids]
    money = _money(connection, question, values, ids)
    summaries = []
    for row, lost_ms, (amount, priced) in zip(rows, lost, money, strict=True):
        hit = () if row.hit is None else slot_ranges(row.hit)
        where = hit or slot_ranges(row.slots)
        cause = known(load_causes(), row.cause)
        summaries.append(
            {
                "id": row.incident_id,
                "ref": f"INC-{row.incident_id}",
                "title": f"{cause.title}: {names.describe(where, count(hit))}",
                "cause": row.cause,
                "owner": cause.owner,
                "states": sorted(row.states),
                "status": "open" if row.open else "closed",
                "start": format_instant(row.start_ms),
                "end": None if row.open else format_instant(row.end_ms),
                "duration_ms": None if row.open else row.end_ms - row.start_ms,
                "gpus": count(hit),
                "nodes": names.nodes_of(where),
                "evidence_count": row.evidence,
                "gpu_ms": area[row.incident_id].gpu_ms if row.incident_id in area else 0,
                "lost_gpu_ms": lost_ms,
                "cost_of_loss": amount,
                "unpriced_lost_gpu_ms": lost_ms - round(Fraction(priced, PPM)),
                "currency": question.currency,
            }
        )
    return sorted(summaries, key=lambda s: (-int(str(s["lost_gpu_ms"])), str(s["start"]), int(str(s["id"]))))


class _Sum:
    def __init__(self) -> None:
        self.incident_id = 0
        self.gpu_ms = 0
        self.lost_ms_ppm = 0


def _sum_up(rows: Iterable[Row[Any]]) -> list[_Sum]:
    found: dict[int, _Sum] = defaultdict(_Sum)
    for row in rows:
        total = found[row.incident_id]
        total.incident_id = row.incident_id
        total.gpu_ms += int(row.gpu_ms)
        total.lost_ms_ppm += int(row.lost_ms_ppm)
    return list(found.values())


def _lost(exact: Sequence[int]) -> list[int]:
    return largest_remainder([Fraction(part, PPM) for part in exact], round(Fraction(sum(exact), PPM)))


def _money(
    connection: Connection, question: Question, values: dict[str, object], ids: Sequence[int]
) -> list[tuple[str | None, int]]:
    """Gives each incident's cost, None where nothing of it has a price, and how much of its loss has one (x 1e6)."""
    if question.currency is None:
        return [(None, 0)] * len(ids)
    amounts: dict[int, Fraction] = defaultdict(Fraction)
    priced: dict[int, int] = defaultdict(int)
    for row in connection.execute(text(_LOSS + _PRICED), values):
        amounts[row.incident_id] += cost(int(row.lost_ms_ppm), row.per_gpu_hour)
        priced[row.incident_id] += int(row.lost_ms_ppm)
    lasting = {r.incident_id for r in connection.execute(text(_LOSS + _AREA), values)}
    return [
        (None if i in lasting and i not in priced else str(displayed(amounts[i], question.currency)), priced[i])
        for i in ids
    ]


def _phases(connection: Connection, question: Question, incident_id: int) -> list[dict[str, object]]:
    """Gives a row per state in order of first appearance: when, how much, at what cost; they sum to the total."""
    values = _parameters(question, incident_id)
    rows = sorted(connection.execute(text(_LOSS + _AREA), values), key=lambda r: (r.start_ms, r.state))
    amounts: dict[str, Fraction] = defaultdict(Fraction)
    if question.card is not None:
        for row in connection.execute(text(_LOSS + _PRICED), values):
            amounts[row.state] += cost(int(row.lost_ms_ppm), row.per_gpu_hour)
    lost = _lost([int(row.lost_ms_ppm) for row in rows])
    shown: Sequence[Decimal | None] = [None] * len(rows)
    if question.currency is not None and amounts:
        shown = displayed_parts([amounts[row.state] for row in rows], question.currency)
    return [
        {
            "state": row.state,
            "start": format_instant(row.start_ms),
            "end": format_instant(row.end_ms),
            "gpu_ms": int(row.gpu_ms),
            "lost_gpu_ms": lost_ms,
            "cost_of_loss": str(amount) if amount is not None and row.state in amounts else None,
        }
        for row, lost_ms, amount in zip(rows, lost, shown, strict=True)
    ]


def _prices(connection: Connection, question: Question, incident_id: int) -> list[dict[str, object]]:
    """Gives which rate priced how much of the loss, so that a reader can redo it; the rows sum to the total."""
    if question.card is None or question.currency is None:
        return []
    rates: dict[tuple[str, int, Decimal], int] = defaultdict(int)
    for row in connection.execute(text(_LOSS + _PRICED), _parameters(question, incident_id)):
        rates[row.model, row.effective_ms, row.per_gpu_hour] += int(row.lost_ms_ppm)
    ordered = sorted(rates.items())
    shown = displayed_parts([cost(lost, rate) for (_, _, rate), lost in ordered], question.currency)
    lost_ms = _lost([lost for _, lost in ordered])
    return [
        {
            "model": model,
            "effective_from": format_instant(effective_ms),
            "per_gpu_hour": f"{per_gpu_hour.normalize():f}",
            "lost_gpu_ms": lost_gpu_ms,
            "cost_of_loss": str(amount),
        }
        for ((model, effective_ms, per_gpu_hour), _), lost_gpu_ms, amount in zip(ordered, lost_ms, shown, strict=True)
    ]


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
                "select distinct a.job from ledger_entry e join allocation a on a.id = e.allocation_id "
                "where e.incident_id = :id and e.revs @> cast(:rev as bigint) order by 1"
            ),
            {"id": incident_id, "rev": question.rev},
        ).scalars()
    )


def _evidence(connection: Connection, question: Question, incident_id: int) -> list[dict[str, object]]:
    rows = connection.execute(
        text(
            "select ev.*, ms_of(ev.start_at) as start_ms, ms_of(ev.end_at) as end_ms from incident_evidence ie "
            "join evidence ev on ev.id = ie.evidence_id "
            "where ie.incident_id = :id and ie.revs @> cast(:rev as bigint) order by ev.start_at, ev.source, ev.key"
        ),
        {"id": incident_id, "rev": question.rev},
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
        }
        for row in rows
    ]


class _Names:
    """Says in words where slots are, as the fleet stood at a revision."""

    def __init__(self, connection: Connection, rev: int) -> None:
        nodes = (place for place in places(connection, rev) if place.kind == "node")
        self._nodes = sorted((low, high, place.name) for place in nodes for low, high in place.slots)
        self._starts = [low for low, _, _ in self._nodes]

    def nodes_of(self, slots: SlotRanges) -> list[str]:
        """Gives the names of the nodes that the slots touch, in topology order."""
        found: dict[str, None] = {}
        for low, high in slots:
            at = max(0, bisect_right(self._starts, low) - 1)
            while at < len(self._nodes) and self._nodes[at][0] < high:
                if self._nodes[at][1] > low:
                    found[self._nodes[at][2]] = None
                at += 1
        return list(found)

    def describe(self, slots: SlotRanges, gpus: int) -> str:
        """Gives the nodes by name while they are few, else their number."""
        nodes = self.nodes_of(slots)
        if len(nodes) > _NAMED_NODES:
            return f"{len(nodes)} nodes, {nodes[0]} to {nodes[-1]}"
        return ", ".join(nodes) + (" (1 GPU)" if gpus == 1 else "")
