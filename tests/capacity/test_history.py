"""Who sat where, and what was lost there: the history of a GPU and of a slot, at any revision."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.capacity.ledgers import day, place, placing, with_nodes
from tests.conftest import Cli
from tests.store.ledgers import act, said, take_in
from warehouse import pipeline
from warehouse.model.fleet import NodeSpec
from warehouse.model.state import State

MINUTES_PER_DAY = 1440


@pytest.fixture
def history(cli: Cli, database_url: str) -> Cli:
    """A fell off the bus in n1/0 on day 2.0, S took its place on day 2.5, A came back to n2/1 on day 8."""
    engine = with_nodes(database_url)
    place(engine, placing("n1/0", 0, "A", serial="1"), placing("spare/0", 0, "S"), placing("n2/1", 0, "D"))
    take_in(
        engine,
        said("1", State.DOWN, 48, 72, "n1/0", cause="accelerator/gpu_off_bus"),
        said("2", State.DEGRADED, 8 * 24, 9 * 24, "n2/1", cause="cooling/gpu_thermal", lost_ppm=250_000),
        said("3", State.DOWN, 60, 60, "n1/0", cause="host/dram"),
        said("4", State.MAINTENANCE, 9 * 24, 10 * 24, "n2", cause="operations/planned_maintenance"),
    )
    place(engine, placing("n1/0", 2.5, "S", why="off the bus"), placing("spare/0", 2.5, ""))
    place(engine, placing("n2/1", 6, ""), placing("n2/1", 8, "A", why="back from repair"))
    place(engine, placing("n1/0", 7, "S", why="seen there"))
    return cli


def read(cli: Cli, *options: object) -> tuple[list[dict[str, object]], dict[str, object]]:
    answer = cli("fleet", "history", *options, "--format", "json")
    assert answer.code == 0, answer.err
    document = json.loads(answer.out)
    return document["stays"], document["total"]


def minutes(stay: dict[str, object], *names: str) -> list[float]:
    return [int(str(stay[f"{name}_gpu_ms"])) / 60_000 for name in names]


def test_a_gpu_over_all_its_slots(history: Cli) -> None:
    (first, second), total = read(history, "--gpu", "1")
    assert (first["slot"], first["from"], first["to"]) == ("n1/0", "2026-01-01T00:00:00Z", "2026-01-03T12:00:00Z")
    # Half of the first outage was suffered by A, and the fault of no length at that very instant by its successor.
    assert minutes(first, "installed", "unplanned", "unknown") == [2.5 * MINUTES_PER_DAY, 720, 2 * MINUTES_PER_DAY]
    assert first["incidents"] == 1
    assert (second["slot"], second["to"], second["why"]) == ("n2/1", None, "back from repair")
    # A day degraded by a quarter, then a day of maintenance, then nothing is booked.
    assert minutes(second, "installed", "good", "unplanned", "planned") == [2880, 1080, 360, 1440]
    assert minutes(total, "installed", "unplanned") == [3600 + 2880, 720 + 360]


def test_a_slot_over_all_its_gpus(history: Cli) -> None:
    stays, _ = read(history, "--slot", "n1/0")
    assert [(s["uuid"], s["incidents"]) for s in stays] == [("A", 1), ("S", 2)]
    # A fact that only confirms makes no second stay.
    assert stays[1]["why"] == "off the bus; seen there"
    assert minutes(stays[1], "unplanned") == [720]
    stays, total = read(history, "--slot", "n2/1")
    assert [(s["gpu"], s["from"]) for s in stays] == [
        ("D", "2026-01-01T00:00:00Z"), (None, "2026-01-07T00:00:00Z"), ("A", "2026-01-09T00:00:00Z"),
    ]  # fmt: skip
    assert minutes(stays[1], "installed") == [0]
    assert minutes(total, "installed") == [8 * MINUTES_PER_DAY]


def test_an_old_revision_tells_the_old_story_for_ever(history: Cli) -> None:
    stays, _ = read(history, "--slot", "n1/0", "--as-of", 3)
    assert [(s["uuid"], s["to"]) for s in stays] == [("A", None)]
    assert minutes(stays[0], "unplanned") == [1440]
    assert "no GPU has the uuid or serial 'A'" in history("fleet", "history", "--gpu", "A", "--as-of", 1).err


def test_the_classes_of_a_stay_sum_to_its_time(history: Cli) -> None:
    stays, total = read(history)
    names = ("good", "overhead", "unplanned", "planned", "unused", "unknown")
    for part in (*stays, total):
        assert sum(minutes(part, *names)) == minutes(part, "installed")[0]
    table = history("fleet", "history").out
    assert "empty" in table
    assert "still there" in table
    csv = history("fleet", "history", "--gpu", "S", "--format", "csv").out
    assert csv.splitlines()[0].startswith("slot,uuid,serial,model,from,to,installed_gpu_ms,good_gpu_ms")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--gpu", "nobody"], "--gpu: no GPU has the uuid or serial 'nobody' at this revision"),
        (["--slot", "n1"], "--slot: 'n1' is not NODE/INDEX, such as n1/3"),
        (["--slot", "n8/0"], "--slot: unknown node 'n8' at this revision"),
        (["--slot", "n1/2"], "--slot: node n1 has GPUs 0 to 1, no 2"),
        (["--slot", "n1/1", "--gpu", "A"], "--gpu and --slot exclude each other"),
    ],
)
def test_what_is_not_there_is_one_line(history: Cli, options: list[str], reason: str) -> None:
    answer = history("fleet", "history", *options)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"gpu-minutes: {reason}")
    assert len(answer.err.splitlines()) == 1


def test_sites_tell_twins_apart(cli: Cli, database_url: str, tmp_path: Path) -> None:
    engine = with_nodes(database_url)
    pipeline.load_fleet(engine, [NodeSpec("t", "h", "r", "n1", 2, "H100", day(0))], act("fleet"))
    place(engine, placing("n1/0", 1, "A", site="t"))
    assert "write site:s/n1/0 or site:t/n1/0" in cli("fleet", "history", "--slot", "n1/0").err
    stays, _ = read(cli, "--slot", "site:t/n1/0")
    assert [s["slot"] for s in stays] == ["site:t/n1/0", "site:t/n1/0"]
    (tmp_path / "bad.csv").write_text("node,index,from,uuid,serial\nn1,x,2026-01-02,GPU a,1.6E+12\n")
    lines = cli("fleet", "gpus", "load", "bad.csv").err.splitlines()
    assert ["column index" in lines[0], "column uuid" in lines[1], "spreadsheet has shortened" in lines[2]] == [
        True
    ] * 3
