"""What people see of shared and contested GPUs: the import's words, `gpu-minutes conflicts`, and refused shares."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tests.conftest import Cli
from warehouse.store.held import HELD

FLEET = """\
site,hall,rack,node,gpus,model,commissioned
s,h,r1,n1,4,H100,2026-01-01
s,h,r1,n2,4,H100,2026-01-01
s,h,r2,n3,4,H100,2026-01-01
t,h,r1,n3,4,H100,2026-01-01
"""
HEAD = "job,attempt,tenant,kind,start,end,scope,share\n"
# j and k contest all of n1 and one GPU of n2 for two hours over a midnight; l, m and n one GPU of n2 for an hour.
ROWS = """\
j,1,red,training,2026-01-01T20:00:00Z,2026-01-02T01:00:00Z,n1+n2/2,
k,1,blue,training,2026-01-01T23:00:00Z,2026-01-02T04:00:00Z,n1+n2/2,
l,1,red,other,2026-01-02T00:00:00Z,2026-01-02T04:00:00Z,n2/0,0.5
m,1,blue,other,2026-01-02T00:00:00Z,2026-01-02T04:00:00Z,n2/0,0.25
n,1,blue,other,2026-01-02T02:00:00Z,2026-01-02T03:00:00Z,n2/0,0.6
"""


@pytest.fixture
def fleet(cli: Cli, tmp_path: Path) -> Cli:
    (tmp_path / "fleet.csv").write_text(FLEET)
    assert cli("fleet", "load", "fleet.csv").code == 0
    return cli


@pytest.fixture
def shared(fleet: Cli, tmp_path: Path) -> Cli:
    (tmp_path / "a.csv").write_text(HEAD + ROWS)
    assert fleet("import", "allocations", "a.csv").code == 0
    return fleet


def test_the_import_tells_what_is_contested_and_what_to_do(fleet: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(HEAD + ROWS)
    lines = fleet("import", "allocations", "a.csv").out.splitlines()
    # 5 GPUs x 2 h and 1 GPU x 1 h.
    assert lines[1:5] == [
        "660 GPU-minutes are contested: jobs together claim more than the whole GPU; none of them holds that time, "
        "and where no other source speaks it is unknown",
        "  n1+n2/2, 2026-01-01T23:00:00Z to 2026-01-02T01:00:00Z, 600 GPU-minutes: j (whole), k (whole)",
        "  n2/0, 2026-01-02T02:00:00Z to 2026-01-02T03:00:00Z, 60 GPU-minutes: l (0.5), m (0.25), n (0.6)",
        "  to settle it, import the rows again with --revise: with the share of each job (column share), or with an "
        "earlier end where a job was over",
    ]
    # What others contested before is no news of this import; a further job on contested time is.
    (tmp_path / "b.csv").write_text(HEAD + "o,1,red,other,2026-01-02,2026-01-03,site:t/n3,0.5\n")
    assert "contested" not in fleet("import", "allocations", "b.csv").out
    (tmp_path / "c.csv").write_text(HEAD + "p,1,red,other,2026-01-02T00:30:00Z,2026-01-02T01:00:00Z,n1/3,0.1\n")
    assert "30 GPU-minutes are contested" in fleet("import", "allocations", "c.csv").out


def test_conflicts_joins_what_people_see_as_one(shared: Cli) -> None:
    said = shared("conflicts").out.splitlines()
    assert [" ".join(line.split()) for line in said[2:]] == [
        "n1+n2/2 2026-01-01T23:00:00Z 2026-01-02T01:00:00Z 600 j (whole), k (whole) 2",
        "n2/0 2026-01-02T02:00:00Z 2026-01-02T03:00:00Z 60 l (0.5), m (0.25), n (0.6) 1.35",
        "2 stretches, 660 GPU-minutes contested; revision 2",
    ]


def test_conflicts_of_a_window_as_json_and_csv(shared: Cli) -> None:
    window = ("--from", "2026-01-02T00:15:00Z", "--to", "2026-01-02T02:30:00Z")
    document = json.loads(shared("conflicts", *window, "--format", "json").out)
    # 5 GPUs x 45 minutes and 1 GPU x 30 minutes.
    assert document["contested_gpu_ms"] == (225 + 30) * 60_000
    assert [(c["scope"], c["gpus"], c["gpu_ms"]) for c in document["conflicts"]] == [
        (["n1", "n2/2"], 5, 225 * 60_000),
        (["n2/0"], 1, 30 * 60_000),
    ]
    assert document["conflicts"][1]["jobs"] == [
        {"job": "l", "share": "0.5"},
        {"job": "m", "share": "0.25"},
        {"job": "n", "share": "0.6"},
    ]
    rows = list(csv.DictReader(io.StringIO(shared("conflicts", *window, "--format", "csv").out)))
    assert [(r["scope"], r["start"], r["end"], r["gpu_ms"], r["claimed"]) for r in rows] == [
        ("n1+n2/2", "2026-01-02T00:15:00Z", "2026-01-02T01:00:00Z", "13500000", "2"),
        ("n2/0", "2026-01-02T02:00:00Z", "2026-01-02T02:30:00Z", "1800000", "1.35"),
    ]


def test_conflicts_as_of_a_revision_keep_their_bytes(shared: Cli, tmp_path: Path) -> None:
    before = shared("conflicts", "--as-of", "2", "--format", "json").out
    (tmp_path / "b.csv").write_text(HEAD + ROWS.splitlines()[0].replace("02T01:00", "01T23:00") + "\n")
    refused = shared("import", "allocations", "b.csv")
    assert (refused.code, refused.err) == (
        2,
        "gpu-minutes: b.csv line 2, column job: 'j' is stored with other content in end; "
        "--revise records a correction\n",
    )
    assert shared("import", "allocations", "--revise", "b.csv").code == 0
    assert shared("conflicts").out.splitlines()[-1] == "1 stretch, 60 GPU-minutes contested; revision 3"
    assert shared("conflicts", "--as-of", "2", "--format", "json").out == before
    assert shared("conflicts", "--as-of", "1").out == "no contested time; revision 1\n"


def test_a_node_of_two_sites_is_named_with_its_site(fleet: Cli, tmp_path: Path) -> None:
    rows = "".join(f"{job},1,red,other,2026-01-02,2026-01-03,site:t/n3/1,\n" for job in ("j", "k"))
    (tmp_path / "a.csv").write_text(HEAD + rows)
    said = fleet("import", "allocations", "a.csv").out
    assert "  site:t/n3/1, 2026-01-02T00:00:00Z to 2026-01-03T00:00:00Z, 1,440 GPU-minutes" in said


@pytest.mark.parametrize(
    ("share", "reason"),
    [
        ("0", "0 is no share; leave the row out, or the cell blank for whole GPUs"),
        ("1.5", "'1.5' is not a number from 0 to 1; write a share such as 0.25"),
        ("50%", "'50%' is not a number from 0 to 1; write a share such as 0.25"),
        ("-0.5", "'-0.5' is not a number from 0 to 1; write a share such as 0.25"),
        ("0.1234567", "'0.1234567' is finer than a millionth; six decimals at most; write a share such as 0.25"),
    ],
)
def test_what_is_no_share_is_refused(fleet: Cli, tmp_path: Path, share: str, reason: str) -> None:
    (tmp_path / "a.csv").write_text(HEAD + f"j,1,red,other,2026-01-02,2026-01-03,n1,{share}\n")
    answer = fleet("import", "allocations", "a.csv")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"gpu-minutes: a.csv line 2, column share: {reason}")


@pytest.mark.parametrize("share", ["", "1", "1.000000"])
def test_the_whole_is_said_in_one_way(shared: Cli, tmp_path: Path, share: str) -> None:
    (tmp_path / "a.csv").write_text(HEAD + ROWS.splitlines()[0] + share + "\n")
    assert "nothing changed" in shared("import", "allocations", "a.csv").out


def test_every_part_of_a_tile_has_one_holder_or_a_row_of_its_own(shared: Cli, database_url: str) -> None:
    # OpenCost lost the idle cost that it could not distribute (PR 883), and counted it twice when it filtered after
    # sharing (1124): here what nobody holds is a row beside the holders', and the rows of a tile sum to the whole.
    engine = create_engine(database_url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        rows = connection.execute(
            text(
                "with tile as (select int4multirange(slots) as slots, during::tstzrange as during, "
                "state::text as state, lost_ppm, cause, incident_id, evidence_id, allocation_id, basis, held_ppm, "
                f"sharers from ledger_head where slots @> 8), {HELD} "
                "select extract(hour from lower(during))::int as hour, coalesce(job, 'nobody') as job, state, ppm "
                "from held where lower(during) >= '2026-01-02 00:00+00' order by 1, 2"
            )
        )
        found = [tuple(row) for row in rows]
    # n2/0 is slot 8: l and m hold three quarters, the last quarter is idle; while n claims 0.6 too it is nobody's.
    assert found == [
        (0, "l", "productive", 500_000),
        (0, "m", "productive", 250_000),
        (0, "nobody", "idle", 250_000),
        (2, "nobody", "unknown", 1_000_000),
        (3, "l", "productive", 500_000),
        (3, "m", "productive", 250_000),
        (3, "nobody", "idle", 250_000),
    ]
