"""One node on one day: every GPU's stretches, joined over midnights of UTC, summing to what is installed."""

from __future__ import annotations

import json

from tests.conftest import Cli
from tests.views.ledgers import note, share, tile, two_sites, write
from warehouse.model.state import State
from warehouse.model.time import MS_PER_HOUR


def test_a_day_of_a_node_is_told_stretch_by_stretch(cli: Cli, database_url: str) -> None:
    engine = two_sites(database_url)
    (job,) = note(engine, share("aa", 300_000, (8, 9)))
    held = {"basis": "presumed", "attempt_id": job, "held_ppm": 300_000, "sharers": (job,)}
    write(
        engine,
        [
            tile((0, 2), 0, 40, State.UNKNOWN),
            tile((8, 9), 0, 24, State.PRODUCTIVE, **held),
            tile((8, 9), 24, 40, State.PRODUCTIVE, **held),
            tile((9, 10), 0, 40, State.UNKNOWN),
        ],
    )
    # A day in Berlin begins at 23:00 UTC; the ledger is booked to 40 h, so seven hours of it are behind.
    answer = cli("node", "b1", "--day", "2026-01-02", "--format", "json")
    assert answer.code == 0, answer.err
    told = json.loads(answer.out)
    assert (told["site"], told["timezone"], told["provisional"]) == ("ber", "Europe/Berlin", True)
    assert told["window"] == {"from": "2026-01-01T23:00:00Z", "to": "2026-01-02T23:00:00Z"}
    assert told["installed_gpu_ms"] == 48 * MS_PER_HOUR
    assert [(r["gpu"], r["state"], r["jobs"], r["rule"], r["gpu_ms"] // MS_PER_HOUR) for r in told["rows"]] == [
        (0, "productive", ["aa"], "claim", 17),
        (0, "unknown", [], "behind", 7),
        (1, "unknown", [], "silence", 17),
        (1, "unknown", [], "behind", 7),
    ]
    table = cli("node", "b1", "--day", "2026-01-02").out
    assert "aa (30% of it)" in table and "not booked yet" in table and "installed: 2,880 GPU-minutes" in table
    assert cli("node", "b1", "--day", "2026-01-02", "--format", "csv").out.startswith("gpu,state,cause,incident,jobs,")


def test_a_day_of_the_clock_change_has_25_hours(cli: Cli, database_url: str) -> None:
    engine = two_sites(database_url)
    write(engine, [tile((0, 2), 0, 24, State.UNKNOWN), tile((8, 10), 0, 24, State.UNKNOWN)])
    told = json.loads(cli("node", "b1", "--day", "2026-10-25", "--format", "json").out)
    assert told["installed_gpu_ms"] == 2 * 25 * MS_PER_HOUR


def test_what_is_no_node_or_day_is_one_line(cli: Cli, database_url: str) -> None:
    two_sites(database_url)
    for arguments, said in (
        (("zz", "--day", "2026-01-02"), "there is no node 'zz'; list them: gpu-minutes fleet show"),
        (("b1", "--day", "2026-02-30"), "--day: '2026-02-30' is no day such as 2026-10-01"),
        (("b1", "--day", "2026-01-02T00:00:00Z"), "--day: '2026-01-02T00:00:00Z' is no day such as 2026-10-01"),
        (("b1", "--day", "2026-01-02", "--site", "nyc"), "there is no node 'b1' at site nyc"),
    ):
        answer = cli("node", *arguments)
        assert (answer.code, answer.out) == (2, "")
        assert said in answer.err and answer.err.count("\n") == 1
