"""The acceptance run: 584 real outages of 400 GPU servers, to the millisecond."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tests.conftest import Answer, Cli, _fresh_database, run_cli
from warehouse.model.time import MS_PER_MINUTE

FIXTURE = Path(__file__).parent.parent / "fixtures" / "infinitehbd"
TRACE = FIXTURE / "fault_trace.json"
EXPECTED = json.loads((FIXTURE / "expected.json").read_text())
RATE_USD = "2.45"


@pytest.fixture(scope="module")
def ledger(embedded_server: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with the trace and a rate card, imported as a user would."""
    url = _fresh_database(embedded_server)
    rates = tmp_path_factory.mktemp("rates") / "rates.csv"
    rates.write_text(f"card,model,currency,per_gpu_hour,effective_from\nlist,unspecified,USD,{RATE_USD},2024-01-01\n")
    assert run_cli(url, "import", "infinitehbd", TRACE).code == 0
    assert run_cli(url, "rates", "load", rates).code == 0
    return url


def goodput(url: str, by: str, *more: str) -> dict[str, object]:
    answer = run_cli(url, "goodput", "--by", by, "--format", "json", *more)
    assert answer.code == 0, answer.err
    document = json.loads(answer.out)
    assert sum(document["classes"].values()) == document["installed_gpu_ms"]
    assert sum(row["gpu_ms"] for row in document["rows"]) == document["installed_gpu_ms"]
    return document


def rows(document: dict[str, object]) -> dict[str, dict[str, object]]:
    found = document["rows"]
    assert isinstance(found, list)
    return {row["key"]: row for row in found}


def test_down_and_unknown_to_the_millisecond(ledger: str) -> None:
    document = goodput(ledger, "state")
    down = EXPECTED["down_gpu_ms"]
    assert document["installed_gpu_ms"] == EXPECTED["capacity_gpu_ms"]
    assert document["availability"] == "0.9768"
    assert document["provisional"] is False
    assert document["unpriced_gpu_ms"] == 0
    assert document["goodput_of_allocated"] is None
    states = rows(document)
    assert set(states) == {"down", "unknown"}
    assert states["down"]["gpu_ms"] == states["down"]["lost_gpu_ms"] == down
    assert states["unknown"]["gpu_ms"] == EXPECTED["capacity_gpu_ms"] - down
    assert states["unknown"]["lost_gpu_ms"] == 0
    # 583 faults begin in the window, the 14 of zero length among them.
    assert states["down"]["incidents"] == EXPECTED["mttr"]["faults"]["count"] == 583
    # 37,201,836.672 GPU-minutes / 60 x 2.45, half-even to the cent.
    assert states["down"]["cost_of_loss"] == document["cost_of_loss"] == "1519075.00"


def test_months(ledger: str) -> None:
    months = rows(goodput(ledger, "month"))
    assert {key: row["lost_gpu_ms"] for key, row in months.items()} == {
        month["month"]: month["down_gpu_ms"] for month in EXPECTED["by_month_utc"]
    }
    assert {key: row["gpu_ms"] for key, row in months.items()} == {
        month["month"]: month["capacity_gpu_minutes"] * MS_PER_MINUTE for month in EXPECTED["by_month_utc"]
    }


def test_worst_nodes_and_healthy_ones(ledger: str) -> None:
    nodes = rows(goodput(ledger, "node"))
    assert len(nodes) == 400
    worst = sorted(nodes, key=lambda key: (-int(str(nodes[key]["lost_gpu_ms"])), key))[:10]
    assert [(key, nodes[key]["lost_gpu_ms"]) for key in worst] == [
        (node["node"], node["down_gpu_ms"]) for node in EXPECTED["worst_nodes"]
    ]
    healthy = [key for key in nodes if key.startswith("healthy-")]
    assert sorted(healthy) == [f"healthy-{number:03d}" for number in range(169)]
    assert all(nodes[key]["lost_gpu_ms"] == 0 for key in healthy)


def test_levels_and_classes_follow_the_earlier_fault(ledger: str) -> None:
    engine = create_engine(ledger.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        found = connection.execute(
            text(
                "select split_part(ev.detail, ' > ', 1) as level, split_part(ev.detail, ' > ', 2) as class, "
                "sum(slot_count(int4multirange(e.slots))::numeric * span_ms(e.during)) as gpu_ms "
                "from ledger_head e join evidence ev on ev.id = e.evidence_id "
                "where e.during && '[2024-03-30,2025-03-13)' group by 1, 2"
            )
        ).all()
    engine.dispose()
    by_class = {(row.level, row[1]): int(row.gpu_ms) for row in found}
    expected = {
        (item["level"], item["class"]): item["resolved_down_gpu_ms"]
        for item in EXPECTED["by_level_class"]
        if item["resolved_down_gpu_ms"]
    }
    assert by_class == expected
    for level, figures in EXPECTED["by_level"].items():
        assert sum(v for (name, _), v in by_class.items() if name == level) == figures["resolved_down_gpu_ms"]


def test_causes_sum_and_unattributed_is_its_own_line(ledger: str) -> None:
    causes = rows(goodput(ledger, "cause"))
    unknown_error = next(c for c in EXPECTED["by_level_class"] if c["class"] == "Unknown Error")
    assert causes["unknown/unattributed"]["lost_gpu_ms"] == unknown_error["resolved_down_gpu_ms"]
    assert causes["unknown/unattributed"]["incidents"] == unknown_error["faults"] == 144
    assert causes["power/psu"]["incidents"] == 26
    assert sum(int(str(row["lost_gpu_ms"])) for row in causes.values()) == EXPECTED["down_gpu_ms"]
    assert "symptom/collective_timeout" not in causes


def test_every_fault_is_an_incident(ledger: str) -> None:
    document = json.loads(run_cli(ledger, "incidents", "--to", "2025-12-01", "--format", "json").out)
    with (FIXTURE / "expected_intervals.csv").open() as stream:
        assert len(document["incidents"]) == len(list(csv.DictReader(stream))) == 584
    assert sum(i["lost_gpu_ms"] for i in document["incidents"]) == EXPECTED["down_gpu_ms"]


def test_laws_hold_and_a_second_import_changes_nothing(ledger: str) -> None:
    assert run_cli(ledger, "check").code == 0
    again = run_cli(ledger, "import", "infinitehbd", TRACE)
    assert again.code == 0
    assert "nothing changed" in again.out
    assert "584 repeated" in again.out
    booked = run_cli(ledger, "book")
    assert "nothing changed" in booked.out


def test_a_window_clips_before_it_sums(ledger: str) -> None:
    june = goodput(ledger, "state", "--from", "2024-06-01", "--to", "2024-07-01")
    assert rows(june)["down"]["gpu_ms"] == 531_219_962_880
    day = goodput(ledger, "state", "--from", "2024-06-01T06:00:00Z", "--to", "2024-06-01T06:00:00.001Z")
    assert day["installed_gpu_ms"] == 3200


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--nodes", "100"], "names 231 nodes, more than --nodes 100"),
        (["--nodes", "x"], "--nodes: 'x' is not a whole number"),
        (["--origin", "2024-03-30T00:00:00"], "--origin: '2024-03-30T00:00:00' has no offset"),
        (["--days", "0"], "--days: '0' is not a whole number"),
    ],
)
def test_bad_flags(cli: Cli, flags: list[str], reason: str) -> None:
    refused(cli("import", "infinitehbd", TRACE, *flags), reason)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is no JSON"),
        (b"{}", "is not a list of fault events"),
        (b"[]", "is not a list of fault events"),
        (b"[1]", "event 1: is no JSON object"),
        (b"\xff\xfe", "is not UTF-8 at byte 1"),
        (b"[" * 100_000, "is nested too deep"),
        (
            b'[{"node_id": "n", "event_time": 1.0, "event_type": "fault_end", '
            b'"fault_type": {"Level": "a", "Class": "b", "Desc": "c"}}]',
            "event 1: ends a fault of n that never started",
        ),
        (
            b'[{"node_id": "n", "event_time": "1", "event_type": "fault_end", "fault_type": {}}]',
            "event 1: event_time is not a number of days",
        ),
    ],
)
def test_bad_traces(cli: Cli, tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "trace.json").write_bytes(content)
    refused(cli("import", "infinitehbd", "trace.json"), reason)


def refused(answer: Answer, reason: str) -> None:
    assert answer.code == 2
    assert reason in answer.err
    assert len(answer.err.splitlines()) == 1
    assert answer.out == ""
