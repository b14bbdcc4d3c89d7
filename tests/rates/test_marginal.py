"""What would have been lost without one incident: worked out by hand, and nothing stored changes by asking."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from sqlalchemy import Engine, text

from tests.conftest import Cli
from tests.rates.test_load import load, rate
from tests.store.ledgers import GPUS, at, goodput, held, prove, said, take_in, with_fleet
from warehouse import booking, views
from warehouse.errors import GpuMinutesError
from warehouse.ledger.classes import PPM2, split
from warehouse.model.state import PPM, GpuTimeClass, State
from warehouse.model.time import MS_PER_HOUR
from warehouse.store import revisions

HOUR = GPUS * MS_PER_HOUR  # one node, one hour


def marginal(engine: Engine, number: int, as_of: int | None = None) -> dict[str, Any]:
    with engine.connect() as connection:
        revision = revisions.latest(connection, as_of)
        assert revision is not None
        question = views.ask(connection, revision, None, None)
        incident = views.incident(connection, question, number)
        assert incident is not None
        found: dict[str, Any] = views.marginal(connection, question, incident)
    assert sum(found["would_have_been"].values()) == found["charged_gpu_ms"] == incident["gpu_ms"]
    return found


def usd(found: dict[str, Any]) -> dict[str, str]:
    return {row["currency"]: row["amount"] for row in found["cost_of_loss"]}


def would(found: dict[str, Any]) -> dict[str, Fraction]:
    """Gives the classes that are not empty, in node-hours."""
    return {name: Fraction(size, HOUR) for name, size in found["would_have_been"].items() if size}


def numbers(engine: Engine) -> dict[str, int]:
    """Gives the incident of each cause."""
    with engine.connect() as connection:
        rows = connection.execute(
            text("select cause, incident_id from incident_cause where role = 'charged' and upper_inf(revs)")
        )
        return {row.cause: row.incident_id for row in rows}


def overlapping(url: str) -> Engine:
    """A job holds a1 for 12 hours; it is down from 2 to 6, and a hang is seen from 4 to 8: down outranks it."""
    engine = with_fleet(url)
    take_in(
        engine,
        held("j", 0, 12, "a1"),
        said("1", State.DOWN, 2, 6, "a1", cause="host/dram"),
        said("2", State.HUNG, 4, 8, "a1", cause="fabric/nic"),
    )
    load(engine, rate(2, 0, 5), rate(3, 5))
    return engine


def test_of_two_faults_at_once_each_takes_away_only_what_the_other_leaves(any_database_url: str) -> None:
    engine = overlapping(any_database_url)
    winner, loser = (marginal(engine, numbers(engine)[cause]) for cause in ("host/dram", "fabric/nic"))
    # The winner is charged 2 to 6. Without it the hang takes 4 to 6, and the job works on from 2 to 4.
    assert (winner["charged_gpu_ms"], winner["lost_gpu_ms"]) == (4 * HOUR, 2 * HOUR)
    assert would(winner) == {"good": 2, "unplanned": 2}
    assert usd(winner) == {"USD": "16.00"}  # 2 to 4: 4 GPUs x 2 h x 2 USD
    # The loser is charged 6 to 8. Without it the job works on, and 4 to 6 is down as it was.
    assert (loser["charged_gpu_ms"], loser["lost_gpu_ms"]) == (2 * HOUR, 2 * HOUR)
    assert would(loser) == {"good": 2}
    assert usd(loser) == {"USD": "24.00"}  # 6 to 8: 4 GPUs x 2 h x 3 USD
    # Charged costs sum to the loss of 6 hours; marginal ones do not.
    charged = winner["charged_gpu_ms"] + loser["charged_gpu_ms"]
    assert charged == 6 * HOUR > winner["lost_gpu_ms"] + loser["lost_gpu_ms"]


def test_a_fault_wholly_under_another_costs_nothing_at_the_margin(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(
        engine,
        said("1", State.DOWN, 0, 6, "a1", cause="host/dram"),
        said("2", State.HUNG, 2, 4, "a1", cause="fabric/nic"),
    )
    load(engine, rate(2))
    under = marginal(engine, numbers(engine)["fabric/nic"])
    assert (under["charged_gpu_ms"], under["lost_gpu_ms"], would(under), usd(under)) == (0, 0, {}, {})
    # Without the outer one: silence from 0 to 2 and from 4 to 6, which is no loss and no good time either.
    outer = marginal(engine, numbers(engine)["host/dram"])
    assert (outer["lost_gpu_ms"], would(outer)) == (4 * HOUR, {"unplanned": 2, "unknown": 4})


def test_under_maintenance_the_window_would_have_had_its_time_anyway(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(
        engine,
        said("w", State.MAINTENANCE, 4, 8, "a1"),
        said("1", State.DOWN, 2, 6, "a1", cause="host/dram"),
        said("2", State.DOWN, 5, 10, "a1", cause="power/psu"),
    )
    load(engine, rate(1))
    # Open when the window began, so down until 6. Without it: silence 2 to 4, the window 4 to 6.
    before = marginal(engine, numbers(engine)["host/dram"])
    assert before["charged_gpu_ms"] == 4 * HOUR
    assert (before["lost_gpu_ms"], would(before)) == (2 * HOUR, {"planned": 2, "unknown": 2})
    # Began inside the window, which owns it until 8: charged 8 to 10 alone.
    inside = marginal(engine, numbers(engine)["power/psu"])
    assert inside["charged_gpu_ms"] == 2 * HOUR
    assert (inside["lost_gpu_ms"], would(inside), usd(inside)) == (2 * HOUR, {"unknown": 2}, {"USD": "8.00"})


def test_on_idle_slots_the_time_would_have_been_unused(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(
        engine,
        said("i", State.IDLE, 0, 6, "a1"),
        said("1", State.DOWN, 2, 8, "a1", cause="host/dram"),
    )
    found = marginal(engine, 1)
    assert (found["lost_gpu_ms"], would(found)) == (6 * HOUR, {"unused": 4, "unknown": 2})
    # No rate is loaded: all of it is unpriced, and no amount is made up.
    assert (usd(found), found["unpriced_lost_gpu_ms"]) == ({}, 6 * HOUR)


def test_a_partial_loss_was_partly_good_already(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(
        engine,
        held("j", 0, 10, "a1"),
        said("1", State.DEGRADED, 0, 10, "a1", cause="cooling/gpu_thermal", lost_ppm=300_000),
    )
    load(engine, rate(1))
    found = marginal(engine, 1)
    assert (found["charged_gpu_ms"], found["lost_gpu_ms"]) == (10 * HOUR, 3 * HOUR)
    assert (would(found), usd(found)) == ({"good": 10}, {"USD": "12.00"})


def test_lost_work_that_rested_on_its_word_alone_goes_with_it(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(
        engine,
        said("1", State.DEGRADED, 0, 6, "a1", cause="cooling/gpu_thermal", lost_ppm=500_000),
        said("2", State.LOST_WORK, 2, 4, "a1", cause="host/dram"),
    )
    # Lost work replaces the degraded time of 2 to 4. Without that word nobody knows of work there, so none is lost.
    found = marginal(engine, numbers(engine)["cooling/gpu_thermal"])
    assert found["charged_gpu_ms"] == 4 * HOUR
    assert would(found) == {"unplanned": -2, "unknown": 6}
    assert found["lost_gpu_ms"] == 2 * HOUR + 2 * HOUR


def test_it_spans_days_and_many_slots_and_an_open_end(database_url: str) -> None:
    engine = with_fleet(database_url)
    take_in(
        engine,
        held("j", 0, None, "a1+a2"),
        said("1", State.DOWN, 20, None, "rack:rack-a", cause="power/psu"),
        said("2", State.DOWN, 22, 30, "a2", cause="host/dram"),
        now_ms=at(60),
    )
    found = marginal(engine, numbers(engine)["power/psu"])
    # Two nodes from 20 to 60; without it a2 would have been down from 22 to 30 all the same.
    assert found["charged_gpu_ms"] == 80 * HOUR
    assert (found["lost_gpu_ms"], would(found)) == (72 * HOUR, {"good": 72, "unplanned": 8})


def test_as_of_reads_evidence_membership_tenure_and_prices_of_that_revision(database_url: str) -> None:
    engine = overlapping(database_url)
    with engine.connect() as connection:
        newest = revisions.latest(connection)
    assert newest is not None
    before = {number: marginal(engine, number) for number in numbers(engine).values()}
    take_in(engine, said("2", State.HUNG, 1, 9, "a1", cause="fabric/nic"), revise=True)
    take_in(engine, said("3", State.DOWN, 3, 5, "a1", cause="power/psu"), said("4", State.IDLE, 0, 9, "a2"))
    assert {number: marginal(engine, number, newest.rev) for number in before} == before
    # Now the hang would have taken all of 2 to 6.
    assert would(marginal(engine, numbers(engine)["host/dram"])) == {"unplanned": 4}


def test_what_waits_to_be_booked_is_not_in_it(database_url: str) -> None:
    engine = overlapping(database_url)
    before = marginal(engine, numbers(engine)["host/dram"])
    done = take_in(engine, said("3", State.DOWN, 0, 9, "a1", cause="power/psu"), book=False)
    assert marginal(engine, numbers(engine)["host/dram"], done.rev) == before


def test_masking_each_incident_in_turn_changes_no_stored_row(database_url: str) -> None:
    engine = overlapping(database_url)
    take_in(engine, said("w", State.MAINTENANCE, 1, 20, "b1"), said("5", State.DOWN, 2, 30, "b1+b2", cause="power/psu"))
    rows, figures = everything(engine), goodput(engine)
    for number in numbers(engine).values():
        marginal(engine, number)
    assert everything(engine) == rows
    assert goodput(engine) == figures
    with engine.connect() as connection:
        assert all(proof.holds for proof in prove(connection))


def everything(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        lines = [line for _, line in revisions.lines(connection)]
        return lines + [str(row) for row in connection.execute(text("select * from ledger_entry order by id"))]


def test_where_deriving_again_gives_something_else_nothing_is_told(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = overlapping(database_url)
    monkeypatch.setattr(booking, "evidence_claims", lambda said, charge, horizon_ms: iter(()))
    with pytest.raises(GpuMinutesError, match="deriving again gives 0"):
        marginal(engine, numbers(engine)["host/dram"])


def test_a_share_of_a_gpu_loses_only_its_share_and_a_fault_all_of_it() -> None:
    shared = split(State.DEGRADED, True, 10, 10 * 300_000, 400_000)
    # Of 10 GPU-ms 4 are held; of these 1.2 are lost and 2.8 good; 6 are nobody's.
    assert {name: Fraction(part, PPM2) for name, part in shared.items() if part} == {
        GpuTimeClass.UNPLANNED: Fraction(6, 5), GpuTimeClass.GOOD: Fraction(14, 5), GpuTimeClass.UNUSED: 6,
    }  # fmt: skip
    down = split(State.DOWN, True, 10, 10 * PPM, 400_000)
    assert {name: part // PPM2 for name, part in down.items() if part} == {GpuTimeClass.UNPLANNED: 10}


def test_the_command_and_the_report_tell_it_only_when_asked(cli: Cli, database_url: str) -> None:
    engine = overlapping(database_url)
    number = numbers(engine)["host/dram"]
    plain = cli("incident", "show", number).out
    told = cli("incident", "show", number, "--marginal").out
    assert "without this incident" not in plain
    block = told.split("without this incident\n")[1].split("\nevidence")[0]
    assert [" ".join(line.split()) for line in block.splitlines()] == [
        "480 lost GPU-minutes less, 16.00 USD less",
        "its 960 GPU-minutes would have been",
        "good 480",
        "overhead 0",
        "unplanned, by other incidents 480",
        "planned 0",
        "unused 0",
        "unknown 0",
        "marginal: incidents' marginal costs do not sum to the total; charged costs do",
    ]
    assert '"marginal"' in cli("incident", "show", number, "--marginal", "--format", "json").out
    report = cli("report", "incident", number, "--marginal").out
    assert "## Without this incident\n\n480 lost GPU-minutes less, 16.00 USD less.\n" in report
    assert "--marginal" in report.split("Made by", 1)[1].split("\n", 1)[0]
    assert "Without this incident" not in cli("report", "incident", number).out
