"""Bad input: one clear line a fault, exit code 2, nothing stored."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Cli, run_cli
from warehouse.model.state import State

FLEET = "site,hall,rack,node,gpus,model,commissioned\ns,h,r,n1,8,H100,2026-01-01\ns,h,r,n2,8,H100,2026-01-01\n"
EVIDENCE = "id,source,start,end,scope,state,cause,lost\n"
GOOD = "1,ops,2026-01-05T00:00:00Z,2026-01-05T01:00:00Z,n1,down,host/dram,\n"
RATES = "card,model,currency,per_gpu_hour,effective_from,effective_to\n"


@pytest.fixture
def fleet(cli: Cli, tmp_path: Path) -> Cli:
    (tmp_path / "fleet.csv").write_text(FLEET)
    assert cli("fleet", "load", "fleet.csv").code == 0
    return cli


def row(**cells: str) -> str:
    base = {
        "id": "2", "source": "ops", "start": "2026-01-05T00:00:00Z", "end": "2026-01-05T01:00:00Z", "scope": "n1",
        "state": "down", "cause": "", "lost": "",
    }  # fmt: skip
    return ",".join((base | cells).values()) + "\n"


EVIDENCE_FAULTS = [
    (row(scope="n9"), "line 3, column scope: unknown node 'n9'"),
    (row(scope="n1/8"), "line 3, column scope: scope 'n1/8': node n1 has GPUs 0 to 7"),
    (row(scope="row:3"), "line 3, column scope: scope 'row:3' begins with none of rack:"),
    (row(state="broken"), "line 3, column state: 'broken' is no state"),
    (row(end="2026-01-04T00:00:00Z"), "line 3, column end: 2026-01-04T00:00:00Z is before the start"),
    (row(start="2026-01-05T00:00:00"), "line 3, column start: '2026-01-05T00:00:00' has no offset"),
    (row(start="2026-02-30T00:00:00Z"), "line 3, column start: '2026-02-30T00:00:00Z' is no time of the calendar"),
    (row(start="2026-01-05T00:00:00.0005Z"), "line 3, column start: '2026-01-05T00:00:00.0005Z' is finer"),
    (row(start=""), "line 3, column start: is blank"),
    (row(id=""), "line 3, column id: is blank"),
    (row(id="9" * 1001), "line 3, column id: has 1001 bytes; 1000 at most"),
    (row(id="a\x1b[31mb"), "line 3, column id: holds the control character U+001B"),
    (row(id="a\u202eb"), "line 3, column id: holds the control character U+202E"),
    (row(start="0001-01-01T00:00:00Z"), "line 3, column start: '0001-01-01T00:00:00Z' lies outside 1970 to 9998"),
    (row(end="9999-12-31T23:59:59Z"), "line 3, column end: '9999-12-31T23:59:59Z' lies outside 1970 to 9998"),
    (row(state="degraded", lost="0_1"), "line 3, column lost: '0_1' is not a number from 0 to 1"),
    (row(scope="n1/00"), "line 3, column scope: scope 'n1/00': node n1 has GPUs 0 to 7"),
    (row(scope="site:x/n1"), "line 3, column scope: unknown node 'n1'"),
    (row(cause="host/drma"), "line 3, column cause: 'host/drma' is no cause of the catalogue; did you mean host/dram?"),
    (row(lost="0.5"), "line 3, column lost: down is all or nothing"),
    (row(state="degraded", lost="1.5"), "line 3, column lost: '1.5' is not a number from 0 to 1"),
    (row(state="degraded", lost="0"), "line 3, column lost: 0 for degraded"),
    (row(state="degraded", lost="0.0000001"), "line 3, column lost: '0.0000001' is finer than a millionth"),
    (row(state="degraded", lost="NaN"), "line 3, column lost: 'NaN' is not a number"),
    (row(id="1"), "line 3, column id: '1' says something else than in evidence.csv line 2"),
    (row(state='"do\nwn"'), "line 3, column state: 'do wn' is no state"),
    ("2,ops\n", "line 3: has 2 cells, the header has 8 columns"),
    ('2,"ops\n', "line 3: is no CSV"),
]


@pytest.mark.parametrize(("bad", "reason"), EVIDENCE_FAULTS)
def test_evidence_row(fleet: Cli, tmp_path: Path, bad: str, reason: str) -> None:
    (tmp_path / "evidence.csv").write_text(EVIDENCE + GOOD + bad)
    answer = fleet("import", "evidence", "evidence.csv")
    assert answer.code == 2
    assert answer.err.startswith(f"gpu-minutes: evidence.csv {reason}"), answer.err
    assert len(answer.err.splitlines()) == 1
    assert answer.out == ""
    # The good row beside the bad one was not stored either.
    assert '"down"' not in fleet("goodput", "--to", "2026-01-10", "--format", "json").out


WHOLE_FILES = [
    (b"", "evidence.csv: is empty"),
    (EVIDENCE.encode(), "evidence.csv: has a header and no row"),
    (b"\xef\xbb\xbf" + (EVIDENCE + GOOD).encode(), "evidence.csv line 1: begins with a byte-order mark"),
    ((EVIDENCE + GOOD).encode() + b"3,\xff\n", "evidence.csv line 3: is not UTF-8 at byte 3"),
    ((EVIDENCE + GOOD).encode("utf-16"), "evidence.csv line 1: "),
    (b"a\x00b\n", "evidence.csv line 1: holds a NUL byte"),
    (b"x" * (2 << 20), "evidence.csv line 1: is longer than 1048576 bytes"),
    (("colour," + EVIDENCE + GOOD).encode(), "evidence.csv line 1: unknown column colour"),
    (b"id,source,start,end,scope\n1,2,3,4,5\n", "evidence.csv line 1: column state is missing"),
    (b"id,id,source,start,end,scope,state\n", "evidence.csv line 1: column id stands twice"),
]


@pytest.mark.parametrize(("content", "reason"), WHOLE_FILES)
def test_evidence_file(fleet: Cli, tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "evidence.csv").write_bytes(content)
    answer = fleet("import", "evidence", "evidence.csv")
    assert (answer.code, answer.out) == (2, "")
    assert reason in answer.err
    assert len(answer.err.splitlines()) == 1


def test_a_gigabyte_without_a_line_break_is_refused_without_reading_it(fleet: Cli, tmp_path: Path) -> None:
    with (tmp_path / "evidence.csv").open("wb") as stream:
        stream.truncate(1 << 30)
        stream.write(b"x" * 4096)
    answer = fleet("import", "evidence", "evidence.csv")
    assert answer.code == 2
    assert "line 1: is longer than" in answer.err


def test_every_bad_row_is_named(fleet: Cli, tmp_path: Path) -> None:
    (tmp_path / "evidence.csv").write_text(EVIDENCE + "".join(row(id=str(n), scope=f"x{n}") for n in range(30)))
    lines = fleet("import", "evidence", "evidence.csv").err.splitlines()
    assert len(lines) == 21
    assert "line 2, column scope: unknown node 'x0'" in lines[0]
    assert "and 10 more; nothing was stored" in lines[-1]


def test_keep_good_stores_the_rest_and_lists_what_it_left_out(fleet: Cli, tmp_path: Path) -> None:
    bad = row(id="2", scope="n9") + row(id="3", state="broken") + row(id="1")
    (tmp_path / "evidence.csv").write_text(EVIDENCE + GOOD + bad)
    answer = fleet("import", "evidence", "--keep-good", "evidence.csv")
    assert answer.code == 0
    assert "4 rows read, 1 kept, 3 left out" in answer.out
    assert answer.err.splitlines() == [
        "gpu-minutes: left out: evidence.csv line 4, column state: 'broken' is no state; known are " + ", ".join(State),
        "gpu-minutes: left out: evidence.csv line 3, column scope: unknown node 'n9'; load it first: "
        "gpu-minutes fleet load",
        "gpu-minutes: left out: evidence.csv line 5, column id: '1' says something else than in evidence.csv line 2",
    ]
    assert '"gpu_ms": 28800000,' in fleet("goodput", "--format", "json").out


def test_missing_file_and_folder(fleet: Cli) -> None:
    assert fleet("import", "evidence", "nowhere.csv").err == (
        "gpu-minutes: nowhere.csv: cannot be read: No such file or directory\n"
    )
    assert fleet("import", "evidence", "/").code == 2


def test_a_known_id_with_other_content_is_refused_and_revised_on_request(fleet: Cli, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text(EVIDENCE + GOOD)
    (tmp_path / "two.csv").write_text(EVIDENCE + GOOD.replace("T01:", "T02:"))
    assert fleet("import", "evidence", "one.csv").code == 0
    refused = fleet("import", "evidence", "two.csv")
    assert refused.code == 2
    assert "two.csv line 2, column id: '1' of ops is stored with other content" in refused.err
    revised = fleet("import", "evidence", "--revise", "two.csv")
    assert (revised.code, revised.err) == (0, "")
    assert "1 of them revise what was known" in revised.out
    assert '"gpu_ms": 57600000,' in fleet("goodput", "--format", "json").out
    assert fleet("check").code == 0


FLEET_FAULTS = [
    ("s,h,r,n3,0,H100,2026-01-01", "line 4, column gpus: '0' is not a whole number"),
    ("s,h,r,n 3,8,H100,2026-01-01", "line 4, column node: 'n 3' cannot be a name"),
    ("s,h,r,n3,8,,2026-01-01", "line 4, column model: is blank"),
    ("s,h,r,n3,8,H100,2026-13-01", "line 4, column commissioned: '2026-13-01' is no date of the calendar"),
    ("s,h,r,n3,8,H100,2026-01-01T00:00:00", "line 4, column commissioned: '2026-01-01T00:00:00' has no offset"),
    ("s,h,r,n1,8,H100,2026-02-01", "line 4, column node: the tenure of n1 overlaps the one in line 2"),
]


@pytest.mark.parametrize(("bad", "reason"), FLEET_FAULTS)
def test_fleet(cli: Cli, tmp_path: Path, bad: str, reason: str) -> None:
    (tmp_path / "fleet.csv").write_text(FLEET + bad + "\n")
    answer = cli("fleet", "load", "fleet.csv")
    assert answer.code == 2
    assert answer.err.startswith(f"gpu-minutes: fleet.csv {reason}"), answer.err
    assert len(answer.err.splitlines()) == 1
    assert "the ledger is empty" in cli("fleet", "show").err


def test_fleet_against_the_stored_one(fleet: Cli, tmp_path: Path) -> None:
    again = fleet("fleet", "load", "fleet.csv")
    assert (again.code, again.out) == (0, "2 nodes, all of them already in the ledger; nothing changed\n")
    (tmp_path / "other.csv").write_text(FLEET.replace("n1,8", "n1,4"))
    other = fleet("fleet", "load", "other.csv")
    assert other.code == 2
    assert "node n1: is already in the ledger as 8 x H100 in h/r" in other.err
    wired = FLEET.replace("commissioned", "commissioned,power_domain").replace("2026-01-01", "2026-01-01,pdu-7")
    (tmp_path / "wired.csv").write_text(wired)
    assert "node n1: stands there with another power_domain" in fleet("fleet", "load", "wired.csv").err
    (tmp_path / "overlap.csv").write_text(FLEET.replace("2026-01-01", "2026-03-01"))
    overlap = fleet("fleet", "load", "overlap.csv")
    assert overlap.code == 2
    assert "node n1: its tenure overlaps the one in the ledger" in overlap.err


RATE_FAULTS = [
    ("list,H100,EURO,2.45,2026-01-01,", "line 3, column currency: 'EURO' is no ISO 4217 currency"),
    ("list,H100,usd,2.45,2027-01-01,", "line 3, column currency: 'usd' is no ISO 4217 currency"),
    ("list,H100,USD,2.60,2026-06-01,", "line 3, column effective_from: overlaps the rate of line 2"),
    ("list,H200,USD,-1,2026-01-01,", "line 3, column per_gpu_hour: '-1' is not a price"),
    ("list,H200,USD,1e3x,2026-01-01,", "line 3, column per_gpu_hour: '1e3x' is not a price"),
    ("list,H200,USD,1.123456789,2026-01-01,", "line 3, column per_gpu_hour: '1.123456789' has more than 8"),
    ("list,H200,USD,1,2026-01-02,2026-01-01", "line 3, column effective_to: is not after effective_from"),
]


@pytest.mark.parametrize(("bad", "reason"), RATE_FAULTS)
def test_rates(fleet: Cli, tmp_path: Path, bad: str, reason: str) -> None:
    (tmp_path / "rates.csv").write_text(RATES + "list,H100,USD,2.45,2026-01-01,\n" + bad + "\n")
    answer = fleet("rates", "load", "rates.csv")
    assert answer.code == 2
    assert answer.err.startswith(f"gpu-minutes: rates.csv {reason}"), answer.err
    assert len(answer.err.splitlines()) == 1
    assert '"rates": []' in fleet("rates", "show", "--format", "json").out


def test_rates_against_the_stored_ones(fleet: Cli, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text(RATES + "list,H100,USD,2.45,2026-01-01,\n")
    (tmp_path / "two.csv").write_text(RATES + "list,H100,USD,9.99,2026-06-01,\n")
    (tmp_path / "eur.csv").write_text(RATES + "list,H100,EUR,9.99,2026-06-01,\n")
    assert fleet("rates", "load", "one.csv").code == 0
    assert "overlaps the stored 2.45" in fleet("rates", "load", "two.csv").err
    (tmp_path / "new.csv").write_text(
        RATES + "list,H100,USD,2.45,2026-01-01,2026-06-01\nlist,H100,USD,1.95,2026-06-01,\n"
    )
    assert fleet("rates", "load", "new.csv").code == 0
    assert fleet("rates", "load", "new.csv").out == "2 rates, all of them already in the ledger; nothing changed\n"
    assert "card list, H100, EUR: has a price in USD at the same time" in fleet("rates", "load", "eur.csv").err


COMMANDS = [
    (["goodput", "--from", "2026-01-02T00:00:00"], "--from: '2026-01-02T00:00:00' has no offset"),
    (["goodput", "--from", "2026-02-01", "--to", "2026-01-01"], "--to is not after --from"),
    (["goodput", "--as-of", "99"], "--as-of: there is no revision 99"),
    (["goodput", "--card", "x"], "--card: there is no rate card 'x'"),
    (["goodput", "--by", "colour"], "Invalid value for '--by'"),
    (["incident", "show", "77"], "there is no incident 77"),
    (["incident", "show", "x"], "'x' is no incident number"),
    (["goodput", "--as-of", "99999999999999999999"], "Invalid value for '--as-of'"),
    (["goodput", "--from", "0001-01-01"], "--from: '0001-01-01' lies outside 1970 to 9998"),
    (["goodput", "--to", "9999-12-31T23:59:59-12:00"], "lies outside 1970 to 9998"),
    (["db", "downgrade", "zzz", "--yes"], "schema version zzz: Can't locate revision"),
    (["nonsense"], "No such command 'nonsense'"),
    (["import", "nonsense", "f"], "No such command 'nonsense'"),
    (["book", "--to", "2999-01-01"], "--to is in the future"),
    (["db", "downgrade", "base"], "downgrade loses history for ever"),
]


@pytest.mark.parametrize(("arguments", "reason"), COMMANDS)
def test_commands(fleet: Cli, arguments: list[str], reason: str) -> None:
    answer = fleet(*arguments)
    assert answer.code == 2
    assert reason in answer.err
    assert len(answer.err.splitlines()) == 1


def test_a_closed_pipe_is_no_failure_and_a_full_disk_is_one_line(database_url: str, tmp_path: Path) -> None:
    (tmp_path / "fleet.csv").write_text(FLEET)
    assert run_cli(database_url, "fleet", "load", tmp_path / "fleet.csv").code == 0
    command = f"{sys.executable} -c 'from warehouse.cli import main; main()' goodput --by day --format csv"
    environment = os.environ | {"GPU_MINUTES_DATABASE_URL": database_url}
    shell = ["bash", "-c", f"{command} | true; echo ${{PIPESTATUS[0]}}"]
    closed = subprocess.run(shell, capture_output=True, text=True, env=environment)
    assert (closed.stdout, closed.stderr) == ("0\n", "")
    full = subprocess.run(["bash", "-c", f"{command} > /dev/full"], capture_output=True, text=True, env=environment)
    assert (full.returncode, full.stderr) == (1, "gpu-minutes: cannot go on: No space left on device\n")


def test_csv_that_is_guarded_against_spreadsheets_can_be_loaded_again(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "fleet.csv").write_text(FLEET.replace("H100", "=H100"))
    assert cli("fleet", "load", "fleet.csv").code == 0
    shown = cli("fleet", "show", "--format", "csv").out
    assert "'=H100" in shown
    (tmp_path / "again.csv").write_text(shown)
    assert "nothing changed" in cli("fleet", "load", "again.csv").out


def test_nobody_may_be_called_none(fleet: Cli, tmp_path: Path) -> None:
    head = "job,attempt,tenant,kind,start,end,scope\n"
    (tmp_path / "a.csv").write_text(head + "none,1,t,training,2026-01-02,2026-01-03,n1\n")
    assert "column job: 'none' is how reports call time that nobody held" in fleet("import", "allocations", "a.csv").err


def test_two_jobs_on_one_gpu_are_told(fleet: Cli, tmp_path: Path) -> None:
    head = "job,attempt,tenant,kind,start,end,scope\n"
    (tmp_path / "a.csv").write_text(
        head + "j,1,t,training,2026-01-02,2026-01-04,n1\nk,1,t,training,2026-01-03,2026-01-05,n1\n"
    )
    said = fleet("import", "allocations", "a.csv").out
    # From the 3rd to the 4th on all of n1's eight GPUs: 8 x 24 x 60 GPU-minutes, whichever job began first.
    assert "11,520 GPU-minutes are contested: jobs together claim more than the whole GPU" in said
    assert "n1, 2026-01-03T00:00:00Z to 2026-01-04T00:00:00Z, 11,520 GPU-minutes: j (whole), k (whole)" in said


def test_passwords_stay_out_of_messages() -> None:
    for url in ("postgresql://u:hunter2@127.0.0.1:1/x", "postgresql://127.0.0.1:1/x?user=u&password=hunter2"):
        answer = run_cli(url, "goodput")
        assert (answer.code, len(answer.err.splitlines())) == (1, 1)
        assert "hunter2" not in answer.err
        assert "127.0.0.1" in answer.err
