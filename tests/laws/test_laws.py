"""The conservation laws, one to nine and thirteen, over random worlds through the real pipeline on PostgreSQL.

Laws ten (calendar), eleven (mutation) and twelve (schema) have files of their own.
After each world the same laws are asked in SQL.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, text

from tests.laws.statements import broken
from tests.laws.worlds import (
    ALL_NODES,
    FLAT_RATE,
    HOURS,
    START,
    World,
    act,
    at,
    build,
    evidence,
    newest,
    tell,
    worlds,
)
from tests.ledger.oracle import verdict
from tests.store.ledgers import grouping, tiling
from warehouse import pipeline, views
from warehouse.ledger.claims import allocation_claims, evidence_claims, tenure_claims
from warehouse.ledger.laws import LawBroken, installed_gpu_ms
from warehouse.model.evidence import Evidence
from warehouse.model.state import PPM, GpuTimeClass, State
from warehouse.model.time import MS_PER_HOUR, Window
from warehouse.store import evidence as stored
from warehouse.store import fleet, revisions
from warehouse.store.incidents import incident_of
from warehouse.views.check import check
from warehouse.views.exact import RATE_DIGITS
from warehouse.views.tiles import CHARGED, areas

WINDOW = Window(START, at(HOURS))


def examples(number: int) -> settings:
    """Each example is a ledger of its own on a real server: few, and all of them different."""
    return settings(max_examples=number, deadline=None, suppress_health_check=list(HealthCheck))


def prove(connection: Connection) -> None:
    """All proofs of `gpu-minutes check` hold, and no statement in SQL gives a row."""
    assert [f"{p.law}: {p.said}" for p in check(connection, newest(connection)) if not p.holds] == []
    assert broken(connection) == []


def ask(connection: Connection, start: float = 0, end: float = HOURS, rev: int | None = None) -> views.Question:
    revision = revisions.latest(connection, rev)
    assert revision is not None
    return views.ask(connection, revision, at(start), at(end), "list")


@given(worlds())
@examples(12)
def test_law_01_area(engine: Engine, world: World) -> None:
    """Entries have the area of tenure, in exact integers, at every revision."""
    build(engine, world, parts=2)
    with engine.connect() as connection:
        for revision in revisions.every(connection):
            booked = connection.execute(
                text(
                    "select coalesce(sum((upper(slots) - lower(slots)) * span_ms(during)), 0) from ledger_entry "
                    "where revs @> cast(:rev as bigint)"
                ),
                {"rev": revision.rev},
            ).scalar_one()
            until = START if revision.horizon_ms is None else revision.horizon_ms
            installed = [
                2 * max(0, min(spec.retired_ms or until, until) - spec.commissioned_ms)
                for spec in world.nodes
                if revision.rev > 1
            ]
            assert booked == sum(installed)
        prove(connection)


@given(worlds())
@examples(12)
def test_law_02_point(engine: Engine, world: World) -> None:
    """Each slot has exactly one entry at each instant inside coverage, none outside, and it is the oracle's."""
    build(engine, world)
    with engine.connect() as connection:
        rev = newest(connection).rev
        said = stored.in_window(connection, WINDOW)
        charged = incident_of(connection, [e.id for e in said if e.id])
        claims = [
            *tenure_claims(fleet.tenure_blocks(connection, rev), WINDOW.end_ms),
            *evidence_claims(said, lambda e: charged.get(e.id or 0, (None, None)), WINDOW.end_ms),
            # The oracle orders holders by number; which of them is first is not asked here.
            *(replace(c, key="0") for c in allocation_claims(stored.allocations_in(connection, WINDOW), WINDOW.end_ms)),
        ]
        rows = connection.execute(
            text(
                "select lower(slots), upper(slots), ms_of(lower(during)), ms_of(upper(during)), state::text, "
                "evidence_id from ledger_head"
            )
        ).all()
    booked: dict[tuple[int, int], list[tuple[str, int | None]]] = defaultdict(list)
    for low, high, start_ms, end_ms, state, evidence_id in rows:
        for slot in range(low, high):
            for hour in range((start_ms - START) // MS_PER_HOUR, (end_ms - START) // MS_PER_HOUR):
                booked[slot, hour].append((state, evidence_id))
    for slot in range(max((high for _, high, *_ in rows), default=0) + 2):
        for hour in range(-1, HOURS + 1):
            # The middle of the hour: everything that is said begins and ends at full hours.
            expected = verdict(claims, slot, at(hour + 0.5))
            wanted = [] if expected is None else [(expected.state, expected.evidence_id)]
            assert booked[slot, hour] == wanted


@given(worlds(), st.integers(0, HOURS - 1), st.integers(1, HOURS))
@examples(10)
def test_law_03_rollup(engine: Engine, world: World, start: int, length: int) -> None:
    """Racks = halls = sites = nodes = days = causes + none = incidents + none = installed, in any window."""
    build(engine, world)
    end = min(start + length, HOURS)
    with engine.connect() as connection:
        question = ask(connection, start, end)
        assert question.zone.key == "America/New_York"
        blocks = fleet.tenure_blocks(connection, question.rev)
        installed = installed_gpu_ms(blocks, Window(at(start), at(end)))
        for by in views.GROUPINGS:
            document = views.goodput(connection, question, by)
            assert document["installed_gpu_ms"] == installed
            rows = document["rows"]
            assert isinstance(rows, list)
            assert sum(row["gpu_ms"] for row in rows) == installed, by
            assert sum(row["gpu_ms"] for row in rows if row["gpu_ms"] < 0) == 0
        prove(connection)


@given(worlds(), st.integers(1, 5), st.randoms(use_true_random=False))
@examples(10)
def test_law_04_order(engine: Engine, world: World, parts: int, rng: random.Random) -> None:
    """Any order, repetition and batching of what is said gives the same tiling and the same incidents."""
    build(engine, world)
    expected = tiling(engine), grouping(engine)
    build(engine, world, parts, rng)
    assert (tiling(engine), grouping(engine)) == expected
    with engine.connect() as connection:
        prove(connection)


@given(worlds(), st.data())
@examples(8)
def test_law_05_late(engine: Engine, world: World, data: st.DataObject) -> None:
    """Late word gives what timely word would have given; deriving twice writes nothing; the past reads as it did."""
    late = data.draw(evidence("late"))
    build(engine, World(world.nodes, (*world.items, late), world.rates))
    expected = tiling(engine)
    build(engine, world)
    with engine.connect() as connection:
        rev = newest(connection).rev
        before = views.goodput(connection, ask(connection), "state")
    tell(engine, late)
    assert tiling(engine) == expected
    again = pipeline.book(engine, act("derive"))
    assert not again.changed
    with engine.connect() as connection:
        assert views.goodput(connection, ask(connection, rev=rev), "state") == before


@given(worlds(), st.data())
@examples(8)
def test_law_06_split(engine: Engine, world: World, data: st.DataObject) -> None:
    """Cutting an entry in two, in time or in slots, changes no figure."""
    build(engine, world)
    with engine.begin() as connection:
        before = [views.goodput(connection, ask(connection), by) for by in ("state", "cause", "rack", "day")]
        rows = connection.execute(
            text("select id, lower(slots) as low, upper(slots) as high, ms_of(lower(during)) as at_ms, "
                 "span_ms(during) as ms from ledger_head order by lower(during), lower(slots)")
        ).all()  # fmt: skip
        row = data.draw(st.sampled_from(rows))
        in_slots = row.high - row.low > 1 and data.draw(st.booleans())
        cut = row.low + 1 if in_slots else row.at_ms + data.draw(st.integers(1, row.ms - 1))
        connection.execute(text("set local session_replication_role = 'replica'"))
        columns = "revs, state, lost_ppm, cause, incident_id, evidence_id, allocation_id, basis, rule"
        first, second = ("slots * int4range(0, :cut)", "slots * int4range(:cut, null)"), ("during", "during")
        if not in_slots:
            edge = "to_timestamp(cast(:cut as numeric) / 1000)"
            first, second = (
                ("slots", "slots"),
                (f"during * tstzrange(null, {edge})", f"during * tstzrange({edge}, null)"),
            )
        connection.execute(text("create temporary table cut_entry on commit drop as select * from ledger_entry "
                                "where id = :id"), {"id": row.id})  # fmt: skip
        connection.execute(text("delete from ledger_entry where id = :id"), {"id": row.id})
        for slots, during in zip(first, second, strict=True):
            connection.execute(
                text(f"insert into ledger_entry (slots, during, {columns}) select {slots}, {during}, {columns} "
                     "from cut_entry"), {"cut": cut},
            )  # fmt: skip
        assert [views.goodput(connection, ask(connection), by) for by in ("state", "cause", "rack", "day")] == before
        connection.rollback()


def unplanned(engine: Engine) -> Fraction:
    """Gives the unplanned loss of the whole world, exactly."""
    with engine.connect() as connection:
        found = areas(connection, ask(connection), "state")
        return sum(
            (Fraction(a.not_good, PPM * PPM) for a in found if a.gpu_class is GpuTimeClass.UNPLANNED), Fraction(0)
        )


# A window may rightly own a new fault, and what has no power cannot break: those two are kept out.
BREAKABLE = tuple(s for s in State if s not in (State.MAINTENANCE, State.STRANDED))


@given(worlds(BREAKABLE, most=6), st.data())
@examples(8)
def test_law_07_monotone(engine: Engine, world: World, data: st.DataObject) -> None:
    """One more `down` never lowers the unplanned loss; taking it back restores the tiling."""
    build(engine, world)
    before, standing = unplanned(engine), tiling(engine)
    more = data.draw(evidence("more", [State.DOWN]))
    tell(engine, more)
    assert unplanned(engine) >= before
    with engine.connect() as connection:
        prove(connection)
    nothing = Evidence("ops", "more", more.start_ms, more.start_ms, more.scope, (), State.DOWN, cause=more.cause)
    tell(engine, nothing, revise=True)
    assert tiling(engine) == standing


def test_law_08_incidents(engine: Engine) -> None:
    """What bridges two incidents keeps their cost: cost(A) + cost(B) + the bridge's own; taken away, they part."""
    empty_world = World(ALL_NODES, (), FLAT_RATE)
    first = Evidence("ops", "a", at(1), at(3), "a1", (), State.DOWN, cause="host/dram")
    other = Evidence("ops", "b", at(5), at(8), "a1", (), State.DOWN, cause="host/dram")
    build(engine, World(empty_world.nodes, (first, other), empty_world.rates))
    # Two GPUs at 2 USD an hour.
    assert _incident_costs(engine) == {"INC-1": "8.00", "INC-2": "12.00"}
    bridge = Evidence("ops", "c", at(3), at(5), "a1", (), State.DOWN, cause="host/dram")
    tell(engine, bridge)
    assert _incident_costs(engine) == {"INC-1": "28.00"}
    gone = Evidence("ops", "c", at(4), at(4), "a1", (), State.DOWN, cause="host/dram")
    tell(engine, gone, revise=True)
    assert sorted(_incident_costs(engine).values()) == ["12.00", "8.00"]
    with engine.connect() as connection:
        prove(connection)


@given(worlds())
@examples(8)
def test_law_08_incidents_sum(engine: Engine, world: World) -> None:
    """However evidence is grouped, incidents and what is in none sum to the whole, in time and in money."""
    build(engine, world)
    with engine.connect() as connection:
        document = views.goodput(connection, ask(connection), "incident")
        by_state = views.goodput(connection, ask(connection), "state")
        rows = document["rows"]
        assert isinstance(rows, list)
        assert sum(row["gpu_ms"] for row in rows) == by_state["installed_gpu_ms"]
        listed = by_state["rows"]
        assert isinstance(listed, list)
        assert sum(row["lost_gpu_ms"] for row in rows) == sum(row["lost_gpu_ms"] for row in listed)
        cents = sum(Fraction(row["cost_of_loss"] or "0") for row in rows)
        assert cents == Fraction(str(document["cost_of_loss"]))
        assert document["cost_of_loss"] == by_state["cost_of_loss"]


@given(worlds())
@examples(10)
def test_law_09_money(engine: Engine, world: World) -> None:
    """Cost = sum(gpu_ms x rate), exactly, hour by hour; shown parts sum to the shown total; no default price."""
    build(engine, world)
    with engine.connect() as connection:
        question = ask(connection)
        priced = [(area, area.price) for area in areas(connection, question, "node") if area.price is not None]
        found = sum(
            (Fraction(p.not_good, PPM) * Fraction(price.units, 10**RATE_DIGITS) for p, price in priced), Fraction(0)
        )
        assert found == _worth_hour_by_hour(connection, world)
        whole = installed_gpu_ms(fleet.tenure_blocks(connection, question.rev), question.window)
        for by in ("node", "day", "cause", "model", "incident"):
            document = views.goodput(connection, question, by)
            rows = document["rows"]
            assert isinstance(rows, list)
            shown = sum(Fraction(row["cost_of_loss"] or "0") for row in rows)
            assert shown == Fraction(str(document["cost_of_loss"]))
            assert document["unpriced_gpu_ms"] == whole - sum(p.gpu_ppm for p, _ in priced) // PPM
        charged = sum((Fraction(p.not_good, PPM) * Fraction(price.units, 10**RATE_DIGITS) for p, price in priced
                       if p.gpu_class in CHARGED), Fraction(0))  # fmt: skip
        exact = charged / (PPM * MS_PER_HOUR)
        assert abs(Fraction(str(document["cost_of_loss"])) - exact) <= Fraction(1, 200)


def _worth_hour_by_hour(connection: Connection, world: World) -> Fraction:
    """Gives sum(not good ms x ppm x rate) by looking up the price of each slot and hour in the rate cards' words."""
    models = {
        (block.slots, block.start_ms): block for block in fleet.tenure_blocks(connection, newest(connection).rev)
    }.values()
    rows = connection.execute(
        text("select lower(slots), upper(slots), ms_of(lower(during)), ms_of(upper(during)), state::text, lost_ppm "
             "from ledger_head")
    ).all()  # fmt: skip
    worth = Fraction(0)
    for low, high, start_ms, end_ms, state, lost_ppm in rows:
        part = PPM if state == "unknown" else lost_ppm
        for slot in range(low, high):
            for at_ms in range(start_ms, end_ms, MS_PER_HOUR):
                model = next(
                    b.model for b in models
                    if any(a <= slot < b for a, b in b.slots)
                    and b.start_ms <= at_ms and (b.end_ms is None or at_ms < b.end_ms)
                )  # fmt: skip
                price = next(
                    (r.per_gpu_hour for r in world.rates
                     if r.model == model and r.start_ms <= at_ms and (r.end_ms is None or at_ms < r.end_ms)), None,
                )  # fmt: skip
                worth += 0 if price is None else Fraction(MS_PER_HOUR * part) * Fraction(price)
    return worth


@given(worlds(most=6))
@examples(6)
def test_law_13_no_clamping(engine: Engine, world: World) -> None:
    """Words that contradict are all kept, and a tiling that does not sum is refused, never cut to fit."""
    build(engine, world)
    with engine.begin() as connection:
        kept = connection.execute(text("select count(*) from evidence")).scalar_one()
        assert kept == sum(isinstance(item, Evidence) for item in world.items)
        connection.execute(text("set local session_replication_role = 'replica'"))
        connection.execute(text("alter table ledger_entry drop constraint ex_ledger_entry_one_state"))
        for harm in ("delete from ledger_entry where id = (select min(id) from ledger_head)",
                     "insert into ledger_entry (slots, during, revs, state, lost_ppm, basis, rule) select slots, "
                     "during, revs, 'unknown', 0, 'none', 'silence' from ledger_head limit 1"):  # fmt: skip
            with connection.begin_nested() as savepoint:
                connection.execute(text(harm))
                with pytest.raises(LawBroken, match="conservation"):
                    views.goodput(connection, ask(connection), "state")
                savepoint.rollback()
        connection.rollback()


def _incident_costs(engine: Engine) -> dict[str, str]:
    with engine.connect() as connection:
        rows = views.goodput(connection, ask(connection), "incident")["rows"]
        assert isinstance(rows, list)
        return {row["key"]: row["cost_of_loss"] for row in rows if row["key"] != "none"}
