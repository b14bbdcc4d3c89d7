"""The worker from real series in a real Prometheus to entries, all at once and in pieces."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Cli, _fresh_database, run_cli
from tests.detect import cases
from tests.detect.server import prometheus
from tests.servers import free_port
from warehouse.model.time import parse_instant

FLEET = "site,hall,rack,node,gpus,model,commissioned\n" + "".join(
    f"s,h,r,n{number},8,H100,2026-03-01\n" for number in (1, 2, 3)
)
WINDOW = ("--from", "2026-03-02T10:00:00Z", "--to", "2026-03-02T10:55:00Z")


@pytest.fixture(scope="module")
def prometheus_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prometheus(tmp_path_factory.mktemp("prometheus"), cases.all_signals()) as address:
        yield address


@pytest.fixture
def watched(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prometheus_url: str) -> Cli:
    monkeypatch.setenv("GPU_MINUTES_PROMETHEUS_URL", prometheus_url)
    (tmp_path / "fleet.csv").write_text(FLEET)
    assert cli("fleet", "load", "fleet.csv").code == 0
    return cli


def figures(cli: Cli) -> tuple[dict[str, int], list[tuple[str, str, str, int]]]:
    document = json.loads(cli("goodput", *WINDOW, "--format", "json").out)
    listed = json.loads(cli("incidents", *WINDOW, "--format", "json").out)
    return (
        {row["key"]: row["gpu_ms"] for row in document["rows"]},
        [(i["cause"], i["start"], i["end"], i["lost_gpu_ms"]) for i in listed["incidents"]],
    )


def test_one_look(watched: Cli) -> None:
    answer = watched("run", "--once", "--since", "2026-03-02T10:00:00Z", "--until", "2026-03-02T11:00:00Z")
    assert answer.code == 0, answer.err
    states, incidents = figures(watched)
    # The node is gone from its first failed scrape to its first good one: 10:20:07 to 10:24:03 on eight GPUs.
    down = 8 * (parse_instant("2026-03-02T10:24:03Z") - parse_instant("2026-03-02T10:20:07Z"))
    assert states == {"down": down, "unknown": 24 * 55 * 60_000 - down}
    assert incidents == [("host/node_unreachable", "2026-03-02T10:20:07Z", "2026-03-02T10:24:03Z", down)]
    assert watched("check").code == 0
    again = watched("run", "--once", "--until", "2026-03-02T11:00:00Z")
    assert (again.code, again.err) == (0, "")


def test_many_looks_give_the_same_ledger(watched: Cli) -> None:
    for minute in (3, 17, 20, 21, 23, 26, 41, 44):
        until = f"2026-03-02T10:{minute}:00Z" if minute > 9 else f"2026-03-02T10:0{minute}:00Z"
        assert watched("run", "--once", "--since", "2026-03-02T10:00:00Z", "--until", until).code == 0
        assert watched("check").code == 0
    assert watched("run", "--once", "--until", "2026-03-02T11:00:00Z").code == 0
    states, incidents = figures(watched)
    assert states["down"] == 8 * 236_000
    assert [i[:3] for i in incidents] == [("host/node_unreachable", "2026-03-02T10:20:07Z", "2026-03-02T10:24:03Z")]


def test_no_prometheus_is_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPU_MINUTES_PROMETHEUS_URL", raising=False)
    unset = cli("run", "--once")
    assert (unset.code, len(unset.err.splitlines())) == (2, 1)
    assert "GPU_MINUTES_PROMETHEUS_URL is not set" in unset.err
    monkeypatch.setenv("GPU_MINUTES_PROMETHEUS_URL", f"http://127.0.0.1:{free_port()}")
    refused = cli("run", "--once")
    assert (refused.code, len(refused.err.splitlines())) == (1, 1)


def test_doctor(watched: Cli, embedded_server: str) -> None:
    well = watched("doctor")
    assert well.code == 0, well.out
    assert "24 GPU tenures" in well.out
    empty = run_cli(_fresh_database(embedded_server), "doctor", "--format", "json")
    assert empty.code == 0
    assert {f["what"]: f["result"] for f in json.loads(empty.out)["findings"]}["database"] == "missing"
    broken = run_cli("postgresql://nobody:secret@127.0.0.1:1/x", "doctor")
    assert broken.code == 1
    assert "secret" not in broken.out + broken.err


def test_looking_again_changes_nothing_where_nothing_came_late(watched: Cli) -> None:
    again = ("run", "--again", "--since", "2026-03-02T10:00:00Z", "--until", "2026-03-02T11:00:00Z")
    early = watched(*again)
    assert (early.code, early.err.count("\n")) == (2, 1) and "nothing was read of this time yet" in early.err
    assert watched("run", "--once", "--since", "2026-03-02T10:00:00Z", "--until", "2026-03-02T11:00:00Z").code == 0
    before = figures(watched)
    answer = watched(*again)
    assert (answer.code, answer.err) == (0, "")
    assert figures(watched) == before
    lacking = watched("run", "--again")
    assert lacking.code == 2 and "--again needs --since and --until" in lacking.err
