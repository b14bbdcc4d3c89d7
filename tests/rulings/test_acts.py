"""Rulings on a real ledger: exact totals, revisions, late and revised evidence, and grouping as from scratch."""

from __future__ import annotations

import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text

from tests.store.ledgers import GPUS, NODES, NOW, START, act, at, goodput, prove, rows, said, take_in, with_fleet
from warehouse import booking, pipeline, views
from warehouse.acts import ruling
from warehouse.causes import load_causes
from warehouse.errors import BadInput
from warehouse.incidents.group import group
from warehouse.model.evidence import Evidence
from warehouse.model.rate import RateSpec
from warehouse.model.ruling import name_of
from warehouse.model.state import State
from warehouse.model.time import MS_PER_HOUR
from warehouse.pipeline import Act
from warehouse.store import evidence, revisions, rulings

HOUR = GPUS * MS_PER_HOUR  # of one node

PSU = "power/psu"


def why(reason: str = "seen on site", now_ms: int = NOW) -> Act:
    return Act("ruling", "alice", reason, now_ms)


def listed(engine: Engine, as_of: int | None = None) -> dict[str, dict[str, Any]]:
    """Every incident of all booked time by its reference."""
    with engine.connect() as connection:
        question = _ask(connection, as_of)
        found = views.incidents(connection, question)
    return {str(incident["ref"]): dict(incident) for incident in found}


def one(engine: Engine, number: int, as_of: int | None = None) -> dict[str, Any]:
    with engine.connect() as connection:
        found = views.incident(connection, _ask(connection, as_of), number)
    assert found is not None
    return dict(found)


def _ask(connection: Connection, as_of: int | None) -> views.Question:
    revision = revisions.latest(connection, as_of)
    assert revision is not None
    return views.ask(connection, revision, None, None)


def figures(engine: Engine) -> dict[str, tuple[str, int, str]]:
    return {ref: (i["cause"], i["lost_gpu_ms"], i["cost_of_loss"]) for ref, i in listed(engine).items()}


def proven(engine: Engine) -> None:
    """All laws hold, and deriving everything again writes nothing."""
    assert not pipeline.book(engine, act("derive")).changed
    with engine.connect() as connection:
        proofs = prove(connection)
        revision = revisions.latest(connection)
        assert revision is not None
        assert booking.differences(connection, revision)[1] is None
    assert all(proof.holds for proof in proofs), proofs


@pytest.fixture
def ledger(database_url: str) -> Engine:
    """INC-1: three hours of a1 in two pieces. INC-2: two hours of a2. INC-3: an hour of b1 without a cause."""
    engine = with_fleet(database_url)
    pipeline.load_rates(engine, [RateSpec("list", "H100", "USD", Decimal("2.5"), START)], act("rates"))
    take_in(
        engine,
        said("1", State.DOWN, 1, 2, "a1", cause="host/dram"),
        said("2", State.DOWN, 2, 4, "a1", cause="host/dram"),
        said("3", State.DOWN, 30, 32, "a2", cause=PSU),
        said("4", State.HUNG, 50, 51, "b1", cause="symptom/collective_timeout"),
    )
    return engine


BEFORE = {
    # 4 GPUs x 3 h x 2.50, 4 x 2 h x 2.50, 4 x 1 h x 2.50
    "INC-1": ("host/dram", 3 * HOUR, "30.00"),
    "INC-2": (PSU, 2 * HOUR, "20.00"),
    "INC-3": ("unknown/unattributed", HOUR, "10.00"),
}


def test_an_attribution_moves_all_of_the_incident_and_stays_with_what_joins_it(ledger: Engine) -> None:
    assert figures(ledger) == BEFORE
    before = one(ledger, 1)
    ruled = ruling.attribute(ledger, 1, PSU, why("the supply was swapped"))
    assert (ruled.cause_before, ruled.cause, ruled.done.closed, ruled.done.opened) == ("host/dram", PSU, 2, 2)
    assert rows(goodput(ledger, by="cause"))[PSU]["gpu_ms"] == 5 * HOUR
    found = one(ledger, 1)
    assert (found["cause_set_by"], found["cause_reason"]) == ("alice", "the supply was swapped")
    assert found["contributing"] == ["host/dram"]
    assert [(r["author"], r["what"], r["reason"]) for r in found["rulings"]] == [
        ("alice", "INC-1 charged with power/psu", "the supply was swapped")
    ]
    proven(ledger)
    # Late evidence that joins it is charged with the ruling; so is what is revised.
    take_in(ledger, said("5", State.DOWN, 4, 6, "a1", cause="host/dram"))
    take_in(ledger, said("1", State.DOWN, 0, 2, "a1", cause="host/dram"), revise=True)
    assert figures(ledger) == BEFORE | {"INC-1": (PSU, 6 * HOUR, "60.00")}
    proven(ledger)
    assert one(ledger, 1, ruled.done.rev - 1) == before


def test_a_withdrawn_attribution_leaves_it_to_the_rules(ledger: Engine) -> None:
    with pytest.raises(BadInput, match="nobody attributed INC-1"):
        ruling.attribute(ledger, 1, None, why())
    ruling.attribute(ledger, 1, PSU, why())
    assert ruling.attribute(ledger, 1, None, why("it was the memory")).cause == "host/dram"
    assert figures(ledger) == BEFORE
    found = one(ledger, 1)
    assert (found["cause_set_by"], found["cause_reason"]) == ("rules", "stated by its evidence")
    assert [r["what"] for r in found["rulings"]] == [
        "INC-1 charged with power/psu", "INC-1 charged as the rules say again",
    ]  # fmt: skip
    proven(ledger)


def test_merging_keeps_the_sum_and_splitting_restores_it(ledger: Engine) -> None:
    totals = goodput(ledger)
    ruled = ruling.merge(ledger, 1, 2, why("one supply fed both"))
    assert ruled.cause == PSU
    # INC-2 keeps its number though INC-1 is older; 5 h on four GPUs, 30.00 + 20.00.
    assert figures(ledger) == {"INC-2": (PSU, 5 * HOUR, "50.00"), "INC-3": BEFORE["INC-3"]}
    assert one(ledger, 1) == {"id": 1, "merged_into": 2}
    assert one(ledger, 2)["contributing"] == ["host/dram"]
    merged = goodput(ledger)
    for key in ("classes", "cost_of_loss", "installed_gpu_ms"):
        assert merged[key] == totals[key]
    for key in ("gpu_ms", "lost_gpu_ms", "cost_of_loss"):
        assert {s: row[key] for s, row in rows(merged).items()} == {s: row[key] for s, row in rows(totals).items()}
    assert (rows(merged)["down"]["gpu_ms"], rows(merged)["hung"]["gpu_ms"]) == (5 * HOUR, HOUR)
    proven(ledger)
    apart = ruling.split(ledger, 2, ["ops/1", "ops/2"], why("two after all"))
    assert (apart.split_id, apart.split_cause, apart.cause) == (4, "host/dram", PSU)
    assert figures(ledger) == {"INC-4": BEFORE["INC-1"], "INC-2": BEFORE["INC-2"], "INC-3": BEFORE["INC-3"]}
    assert goodput(ledger)["classes"] == totals["classes"]
    whats = ["INC-1 merged into INC-2, charged with power/psu", "INC-4 split off INC-2 with ops/1, ops/2"]
    assert [r["what"] for r in one(ledger, 4)["rulings"]] == whats
    assert [r["what"] for r in one(ledger, 2)["rulings"]] == whats
    assert one(ledger, 2, ruled.done.rev)["evidence_count"] == 3
    proven(ledger)


def test_what_was_split_off_stays_apart_though_late_evidence_touches_both(ledger: Engine) -> None:
    ruled = ruling.split(ledger, 1, ["ops/1"], why())
    assert ruled.split_id == 4
    # ops/1 began earlier, yet the number stays with the rest.
    assert figures(ledger)["INC-1"] == ("host/dram", 2 * HOUR, "20.00")
    assert figures(ledger)["INC-4"] == ("host/dram", HOUR, "10.00")
    take_in(ledger, said("5", State.DOWN, 0, 5, "a1", cause="host/dram"))
    assert [e["id"] for e in one(ledger, 4)["evidence"]] == ["1"]
    assert [e["id"] for e in one(ledger, 1)["evidence"]] == ["5", "2"]
    take_in(ledger, said("1", State.DOWN, 1, 3, "a1", cause="host/dram"), revise=True)
    assert [e["revision"] for e in one(ledger, 4)["evidence"]] == [2]
    proven(ledger)


def test_evidence_that_was_gone_for_a_while_comes_back_to_what_it_was_merged_with(ledger: Engine) -> None:
    ruling.merge(ledger, 2, 1, why())
    take_in(ledger, said("3", State.IDLE, 30, 32, "a2"), revise=True)
    assert figures(ledger) == {"INC-1": BEFORE["INC-1"], "INC-3": BEFORE["INC-3"]}
    take_in(ledger, said("3", State.DOWN, 40, 43, "a2", cause="fabric/nic"), revise=True)
    assert figures(ledger) == {"INC-1": ("host/dram", 6 * HOUR, "60.00"), "INC-3": BEFORE["INC-3"]}
    proven(ledger)


def test_a_merge_across_days_of_open_evidence_moves_no_horizon(ledger: Engine) -> None:
    opened = take_in(ledger, said("6", State.DOWN, 60, None, "b2", cause=PSU))
    assert opened.horizon_ms == NOW
    before = goodput(ledger)
    later = why("hours later", NOW + 5 * MS_PER_HOUR)
    ruled = ruling.merge(ledger, 4, 2, later)
    assert ruled.done.horizon_ms == NOW
    assert {k: v for k, v in goodput(ledger).items() if k not in ("revision", "rows")} == {
        k: v for k, v in before.items() if k not in ("revision", "rows")
    }
    # 2 h of a2, and b2 from hour 60 to the twentieth day.
    assert figures(ledger)["INC-2"][1] == 2 * HOUR + GPUS * (NOW - at(60))


def test_a_note_books_nothing_and_goes_where_the_evidence_goes(ledger: Engine) -> None:
    ruled = ruling.note(ledger, 1, why("RMA 4711"))
    assert (ruled.done.changed, ruled.done.opened, ruled.done.closed) == (True, 0, 0)
    ruling.merge(ledger, 1, 3, why())
    assert [(r["kind"], r["incident"], r["reason"]) for r in one(ledger, 3)["rulings"]][:1] == [
        ("note", "INC-1", "RMA 4711")
    ]
    proven(ledger)


REFUSED = [
    (lambda e: ruling.attribute(e, 9, PSU, why()), "there is no incident INC-9; list them: gpu-minutes incidents"),
    (lambda e: ruling.attribute(e, 1, "symptom/collective_timeout", why()), "is a symptom, which is never charged"),
    (lambda e: ruling.merge(e, 1, 1, why()), "INC-1 cannot be merged into itself"),
    (lambda e: ruling.merge(e, 9, 1, why()), "there is no incident INC-9"),
    (lambda e: ruling.merge(e, 1, 9, why()), "there is no incident INC-9"),
    (lambda e: ruling.split(e, 1, ["ops/3"], why()), "INC-1 holds no such evidence; it holds ops/1, ops/2"),
    (lambda e: ruling.split(e, 1, ["ops/1", "ops/2"], why()), "a split has to leave some of it"),
    (lambda e: ruling.split(e, 1, [], why()), "name the evidence to split off"),
    (lambda e: ruling.note(e, 9, why()), "there is no incident INC-9"),
]  # fmt: skip


def test_what_cannot_be_ruled_stores_nothing(ledger: Engine) -> None:
    for call, reason in REFUSED:
        with pytest.raises(BadInput, match=reason) as caught:
            call(ledger)
        assert len(caught.value.lines) == 1
    ruling.merge(ledger, 1, 2, why())
    ruling.merge(ledger, 2, 3, why())
    merged = [
        lambda: ruling.attribute(ledger, 1, PSU, why()),
        lambda: ruling.merge(ledger, 3, 1, why()),
        lambda: ruling.merge(ledger, 1, 3, why()),
    ]
    for again in merged:
        with pytest.raises(BadInput, match="INC-1 was merged into INC-3; rule on that one"):
            again()
    # Corrections leave nothing of it: idle time is nobody's trouble.
    take_in(ledger, said("7", State.DOWN, 70, 71, "b2", cause=PSU))
    take_in(ledger, said("7", State.IDLE, 70, 71, "b2"), revise=True)
    for gone in (lambda: ruling.merge(ledger, 4, 3, why()), lambda: ruling.note(ledger, 4, why())):
        with pytest.raises(BadInput, match="INC-4 has no evidence any more"):
            gone()
    take_in(ledger, said("8", State.DOWN, 80, 81, "b2", cause=PSU), book=False)
    with pytest.raises(BadInput, match="first: gpu-minutes book"):
        ruling.attribute(ledger, 3, "host/dram", why())
    with ledger.connect() as connection:
        assert connection.execute(text("select array_agg(kind order by id) from ruling")).scalar_one() == [
            "merge",
            "merge",
        ]


def test_the_same_word_twice_changes_nothing(ledger: Engine) -> None:
    first = ruling.attribute(ledger, 1, PSU, why())
    again = ruling.attribute(ledger, 1, PSU, why(now_ms=NOW + 1))
    assert (again.done.changed, again.done.rev) == (False, first.done.rev)
    assert ruling.attribute(ledger, 1, PSU, why("a better reason")).done.changed
    assert one(ledger, 1)["cause_reason"] == "a better reason"
    proven(ledger)


def _stored(connection: Connection) -> set[tuple[object, ...]]:
    found = connection.execute(
        text(
            "select ic.cause, ic.set_by, ic.reason, array_agg(ev.source || '/' || ev.key order by ev.key) as names "
            "from incident_evidence ie join evidence ev on ev.id = ie.evidence_id join incident_cause ic "
            "on ic.incident_id = ie.incident_id and ic.role = 'charged' and upper_inf(ic.revs) "
            "where upper_inf(ie.revs) group by ie.incident_id, ic.cause, ic.set_by, ic.reason"
        )
    )
    return {(row.cause, row.set_by, row.reason, *row.names) for row in found}


def _from_scratch(connection: Connection) -> set[tuple[object, ...]]:
    said_all = evidence.every_head(connection)
    windows = [e for e in said_all if e.state is State.MAINTENANCE]
    found = group(said_all, load_causes(), windows, rulings.standing(connection))
    return {
        (i.cause, i.set_by, i.reason, *(f"{m.source}/{m.key}" for m in sorted(i.members, key=lambda m: m.key)))
        for i in found
    }


def _piece(rng: random.Random, number: int) -> Evidence:
    state = rng.choice([State.DOWN, State.DOWN, State.HUNG, State.RECOVERING, State.MAINTENANCE, State.IDLE])
    start = rng.randrange(0, 60)
    cause = rng.choice(["host/dram", PSU, None]) if state in (State.DOWN, State.HUNG) else None
    scope = rng.choice([*NODES, "rack:rack-a"])
    return said(f"{number:02}", state, start, start + rng.randrange(0, 12), scope, cause=cause)


def _rule_at_random(engine: Engine, rng: random.Random) -> None:
    with engine.connect() as connection:
        found: Sequence[Any] = connection.execute(
            text(
                "select incident_id as id, array_agg(source || '/' || key) as names from incident_evidence ie "
                "join evidence ev on ev.id = ie.evidence_id where upper_inf(ie.revs) group by 1 order by 1"
            )
        ).all()
    if len(found) < 2:
        return
    kind, (chosen, other) = rng.choice(["attribute", "withdraw", "merge", "merge", "split"]), rng.sample(found, 2)
    if kind == "attribute":
        ruling.attribute(engine, chosen.id, rng.choice(["fabric/nic", PSU]), why())
    elif kind == "merge":
        ruling.merge(engine, chosen.id, other.id, why())
    elif kind == "withdraw" and one(engine, chosen.id)["cause_set_by"] != "rules":
        ruling.attribute(engine, chosen.id, None, why())
    elif kind == "split" and len(chosen.names) > 1:
        ruling.split(engine, chosen.id, rng.sample(chosen.names, rng.randrange(1, len(chosen.names))), why())


@pytest.mark.parametrize("seed", range(4))
def test_incidents_by_steps_are_the_incidents_from_scratch(database_url: str, seed: int) -> None:
    rng = random.Random(seed)
    engine = with_fleet(database_url)
    for number in range(14):
        piece = _piece(rng, number if number < 4 or rng.random() < 0.7 else rng.randrange(number))
        take_in(engine, piece, revise=True, book=rng.random() < 0.8)
        if rng.random() < 0.6:
            pipeline.book(engine, act("derive"))
            _rule_at_random(engine, rng)
    pipeline.book(engine, act("derive"))
    with engine.connect() as connection:
        assert rulings.standing(connection), "the seed rules nothing"
        assert _stored(connection) == _from_scratch(connection)
        assert {name_of(e) for e in evidence.every_head(connection)} >= {
            name for r in rulings.standing(connection) for name in r.about
        }
    proven(engine)
