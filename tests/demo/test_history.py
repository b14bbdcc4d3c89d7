"""The written past: the same for everyone, complete, and taken in without a finding."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.conftest import Cli
from warehouse.config import Config
from warehouse.demo.fleet import ALL_NODES, GPUS_PER_NODE, MODEL, SITE, fleet_rows, nodes_of, scope_of
from warehouse.demo.history import HISTORY_DAYS, history_window, make_history
from warehouse.demo.seed import SEED, load_files, write_files
from warehouse.model.time import MS_PER_DAY, MS_PER_MINUTE, Window, parse_instant
from warehouse.pipeline import Act
from warehouse.store import connect, migrate

NOW_MS = 1_790_000_000_000
WINDOW = history_window(NOW_MS)


def test_the_history_ends_at_the_last_whole_minute() -> None:
    assert WINDOW.length_ms == HISTORY_DAYS * MS_PER_DAY
    assert WINDOW.end_ms % MS_PER_MINUTE == 0
    assert 0 <= NOW_MS - WINDOW.end_ms < MS_PER_MINUTE


def test_the_same_seed_and_window_give_the_same_rows() -> None:
    first, second = (make_history(random.Random(SEED), WINDOW) for _ in range(2))
    assert first == second
    assert make_history(random.Random(SEED + 1), WINDOW).evidence != first.evidence


def test_another_window_moves_the_same_history() -> None:
    later = Window(WINDOW.start_ms + MS_PER_DAY, WINDOW.end_ms + MS_PER_DAY)
    first, second = (make_history(random.Random(SEED), window) for window in (WINDOW, later))
    assert [row[4:] for row in first.evidence] == [row[4:] for row in second.evidence]
    moved = {parse_instant(b[2]) - parse_instant(a[2]) for a, b in zip(first.evidence, second.evidence, strict=True)}
    assert moved == {MS_PER_DAY}


@pytest.mark.parametrize("seed", range(30))
def test_any_seed_stays_inside_the_window_and_leaves_jobs_running(seed: int) -> None:
    record = make_history(random.Random(seed), WINDOW)
    for row in (*record.evidence, *((r[0], r[1], r[4], r[5]) for r in record.allocations)):
        start_ms = parse_instant(row[2])
        end_ms = parse_instant(row[3]) if row[3] else WINDOW.end_ms
        assert WINDOW.start_ms <= start_ms <= end_ms <= WINDOW.end_ms, row
    kinds = {job.split("-")[0] for job in record.running}
    assert kinds == {"pretrain", "finetune", "serve"}
    held = [node for nodes in record.running.values() for node in nodes]
    assert len(held) == len(set(held)) == 12 + 8 + 4 + 2


def test_scopes_name_whole_racks() -> None:
    assert scope_of(nodes_of("a1", "b2")) == "rack:a1+rack:b2"
    assert scope_of(["a1-n2", "a1-n1", "b2-n3"]) == "a1-n1+a1-n2+b2-n3"


def test_the_fleet_says_that_it_is_simulated() -> None:
    rows = fleet_rows(WINDOW.start_ms)
    assert len(rows) == len(ALL_NODES) == 32
    assert {row[0] for row in rows} == {SITE} == {"demo-site"}
    assert {row[5] for row in rows} == {MODEL} and "(simulated)" in MODEL


def test_the_files_are_taken_in_as_a_users_files_would_be(cli: Cli, tmp_path: Path) -> None:
    window = write_files(tmp_path, NOW_MS)
    for words in (
        ("fleet", "load", "fleet.csv"),
        ("rates", "load", "rates.csv"),
        ("import", "evidence", "evidence.csv"),
        ("import", "allocations", "allocations.csv"),
    ):
        answer = cli(*words)
        assert (answer.code, answer.err) == (0, ""), answer.err
    span = ("--from", "2026-09-16T14:13:00Z", "--to", "2026-09-21T14:13:00Z")
    assert parse_instant(span[1]) == window.start_ms and parse_instant(span[3]) == window.end_ms
    goodput = json.loads(cli("goodput", *span, "--format", "json").out)
    assert goodput["installed_gpu_ms"] == len(ALL_NODES) * GPUS_PER_NODE * window.length_ms
    assert goodput["allocated_gpu_ms"] > 0.5 * goodput["installed_gpu_ms"]
    assert 0.7 < float(goodput["goodput_of_installed"]) < 0.95
    assert all(value > 0 for value in goodput["classes"].values())
    assert goodput["unpriced_gpu_ms"] == 0
    states = {row["key"] for row in goodput["rows"] if row["gpu_ms"]}
    assert states >= {"down", "recovering", "maintenance", "hung", "lost_work", "degraded", "starved", "unusable"}
    assert states >= {"startup", "checkpoint", "idle_allocated", "idle_blocked", "idle", "spare", "productive"}
    incidents = json.loads(cli("incidents", *span, "--format", "json").out)["incidents"]
    assert incidents[0]["cause"] == "facility/data_hall_power_loss"
    assert len({incident["cause"] for incident in incidents}) == len(incidents) >= 12
    assert {incident["status"] for incident in incidents} == {"closed"}
    hole = [row for row in goodput["rows"] if row["key"] == "unknown"]
    assert 0 < hole[0]["gpu_ms"] <= 22 * MS_PER_MINUTE * 32
    assert cli("check").code == 0


def test_loading_twice_changes_nothing(database_url: str, tmp_path: Path) -> None:
    window = write_files(tmp_path, NOW_MS)
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert write_files(tmp_path, NOW_MS + MS_PER_DAY) == window
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == kept
    engine = connect.open_engine(Config(tmp_path, database_url, None))
    migrate.ready(engine)

    def act(kind: str, reason: str) -> Act:
        return Act(kind, "tester", reason, NOW_MS)

    done = load_files(engine, tmp_path, act)
    assert done is not None and done.changed
    assert load_files(engine, tmp_path, act) is None
