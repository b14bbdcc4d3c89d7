"""What a person sees: one line per ruling, one line per fault, the audit log, and old revisions as they were."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tests.conftest import Cli

FLEET = "site,hall,rack,node,gpus,model,commissioned\ns,h,r,n1,8,H100,2026-01-01\ns,h,r,n2,8,H100,2026-01-01\n"
EVIDENCE = """id,source,start,end,scope,state,cause
1,ops,2026-01-05T00:00:00Z,2026-01-05T01:00:00Z,n1,down,host/dram
2,ops,2026-01-05T01:00:00Z,2026-01-05T03:00:00Z,n1,down,host/dram
3,ops,2026-01-06T00:00:00Z,2026-01-06T02:00:00Z,n2,down,power/psu
"""
WHY = ("--reason", "seen on site")


@pytest.fixture
def ledger(cli: Cli, tmp_path: Path) -> Cli:
    """Revision 2: INC-1 of two pieces, INC-2 of one."""
    (tmp_path / "fleet.csv").write_text(FLEET)
    (tmp_path / "evidence.csv").write_text(EVIDENCE)
    assert cli("fleet", "load", "fleet.csv").code == 0
    assert cli("import", "evidence", "evidence.csv").code == 0
    return cli


def test_each_ruling_says_what_changed_and_shows_in_order(ledger: Cli) -> None:
    steps = [
        (("attribute", "INC-1", "power/psu", *WHY, "--author", "alice"),
         "INC-1 is charged with power/psu; it was host/dram; revision 3\n"),
        (("merge", "2", "1", "--reason", "one supply", "--author", "bob"),
         "INC-2 was merged into INC-1, which stays charged with power/psu; revision 4\n"),
        (("note", "1", "RMA | 4711", "--author", "bob"), "INC-1 has a note; revision 5\n"),
        (("split", "1", "--evidence", "ops/3", *WHY, "--author", "carol"),
         "INC-3 was split off INC-1 and is charged with power/psu; INC-1 is charged with power/psu; revision 6\n"),
        (("attribute", "1", "--withdraw", *WHY, "--author", "dan"),
         "INC-1 is charged with host/dram, as the rules say; it was power/psu; revision 7\n"),
        (("attribute", "1", "host/dram", *WHY, "--author", "dan"),
         "INC-1 stays charged with host/dram; revision 8\n"),
        (("attribute", "1", "host/dram", *WHY, "--author", "dan"),
         "that was ruled already, in these words; the ledger stays at revision 8\n"),
    ]  # fmt: skip
    for arguments, printed in steps:
        answer = ledger("incident", *arguments)
        assert (answer.code, answer.out, answer.err) == (0, printed, ""), arguments
    shown = json.loads(ledger("incident", "show", "1", "--format", "json").out)
    assert (shown["cause_set_by"], shown["cause_reason"]) == ("dan", "seen on site")
    assert [(r["revision"], r["author"], r["what"]) for r in shown["rulings"]] == [
        (3, "alice", "INC-1 charged with power/psu"),
        (4, "bob", "INC-2 merged into INC-1, charged with power/psu"),
        (5, "bob", "note on INC-1"),
        (6, "carol", "INC-3 split off INC-1 with ops/3"),
        (7, "dan", "INC-1 charged as the rules say again"),
        (8, "dan", "INC-1 charged with host/dram"),
    ]
    screen = ledger("incident", "show", "1").out
    assert "set by dan: seen on site\n" in screen
    assert "  bob  note on INC-1: RMA | 4711 (revision 5)\n" in screen
    assert "| bob | note on INC-1 | RMA \\| 4711 | 5 |" in ledger("report", "incident", "1").out
    assert ledger("check").code == 0


def test_an_old_revision_shows_the_same_bytes(ledger: Cli) -> None:
    reads = [("incidents",), ("goodput", "--by", "cause"), ("incident", "show", "1"), ("report", "incident", "1")]
    forms = [(*read, "--format", "json") if read[0] != "report" else read for read in reads]
    before = [ledger(*read, "--as-of", "2").out for read in forms]
    assert ledger("incident", "attribute", "1", "power/psu", *WHY).code == 0
    ruled = [ledger(*read, "--as-of", "3").out for read in forms]
    assert ledger("incident", "merge", "1", "2", *WHY).code == 0
    assert ledger("incident", "split", "2", "--evidence", "ops/2", *WHY).code == 0
    assert [ledger(*read, "--as-of", "2").out for read in forms] == before
    assert [ledger(*read, "--as-of", "3").out for read in forms] == ruled
    old = json.loads(before[2])
    assert (old["cause"], old["rulings"], len(old["evidence"])) == ("host/dram", [], 2)
    assert json.loads(ruled[2])["cause"] == "power/psu"
    assert ledger("incident", "show", "1").err == "gpu-minutes: incident 1 was merged into INC-2\n"


FAULTS = [
    (("attribute", "9", "power/psu", *WHY), "there is no incident INC-9; list them: gpu-minutes incidents"),
    (("attribute", "one", "power/psu", *WHY), "'one' is no incident number such as 12 or INC-12"),
    (("attribute", "1", "power/psi", *WHY), "'power/psi' is no cause of the catalogue; did you mean power/psu?"),
    (("attribute", "1", "symptom/collective_timeout", *WHY),
     "symptom/collective_timeout is a symptom, which is never charged; name the cause that is behind it"),
    (("attribute", "1", *WHY), "name the cause that is charged, or --withdraw and no cause"),
    (("attribute", "1", "power/psu", "--withdraw", *WHY), "name the cause that is charged, or --withdraw and no cause"),
    (("attribute", "1", "--withdraw", *WHY), "nobody attributed INC-1; its cause is what the rules say already"),
    (("attribute", "1", "power/psu", "--reason", " \n "), "--reason: is blank"),
    (("attribute", "1", "power/psu", "--reason", "a\x1b[31mb"), "--reason: holds the control character U+001B"),
    (("attribute", "1", "power/psu", "--reason", "x" * 1001), "--reason: has 1001 bytes; 1000 at most"),
    (("attribute", "1", "power/psu", *WHY, "--author", ""), "--author: is blank"),
    (("attribute", "1", "power/psu", *WHY, "--author", "rules"),
     "--author: 'rules' is what the ledger calls its own rules; give a person's name"),
    (("attribute", "1", "power/psu"), "Missing option '--reason'; see gpu-minutes incident attribute --help"),
    (("merge", "1", "INC-1", *WHY), "INC-1 cannot be merged into itself"),
    (("split", "1", "--evidence", "ops/7", *WHY),
     "--evidence ops/7: INC-1 holds no such evidence; it holds ops/1, ops/2"),
    (("split", "1", "--evidence", "ops/1", "--evidence", "ops/2", *WHY),
     "INC-1 holds nothing but that evidence; a split has to leave some of it"),
    (("split", "1", *WHY), "Missing option '--evidence'; see gpu-minutes incident split --help"),
    (("note", "1", ""), "the note: is blank"),
    (("note", "1", "a\u202eb"), "the note: holds the control character U+202E"),
]  # fmt: skip


def test_bad_input_is_one_line_and_stores_nothing(ledger: Cli, database_url: str) -> None:
    for arguments, reason in FAULTS:
        answer = ledger("incident", *arguments)
        assert (answer.code, answer.out, answer.err) == (2, "", f"gpu-minutes: {reason}\n"), arguments
    engine = create_engine(database_url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        assert connection.execute(text("select (select count(*) from ruling), max(rev) from revision")).one() == (0, 2)
    engine.dispose()


def test_the_audit_log_names_every_act_and_vouches_for_it(ledger: Cli, database_url: str) -> None:
    assert ledger("incident", "attribute", "1", "power/psu", "--reason", "=cmd()", "--author", "alice").code == 0
    log = json.loads(ledger("audit", "--format", "json").out)["acts"]
    assert [(a["revision"], a["kind"], a["what"], a["reason"]) for a in log] == [
        (1, "fleet", None, "fleet load fleet.csv"),
        (2, "import", None, "import evidence evidence.csv"),
        (3, "ruling", "INC-1 charged with power/psu", "=cmd()"),
    ]
    # Both pieces of INC-1 are one entry each and were booked again.
    assert (log[2]["author"], log[2]["entries_opened"], log[2]["entries_closed"]) == ("alice", 2, 2)
    (last,) = csv.DictReader(io.StringIO(ledger("audit", "--since", "3", "--format", "csv").out))
    assert (last["reason"], last["chain"]) == ("'=cmd()", log[2]["chain"])
    assert "INC-1 charged with power/psu: =cmd()" in ledger("audit").out
    assert ledger("audit", "--since", "4").out.count("\n") <= 2
    head = ledger("audit", "--head").out.strip()
    assert head == f"3:{log[2]['chain']}"
    assert ledger("audit", "--head", "--as-of", "2").out.strip() == f"2:{log[1]['chain']}"
    old = ledger("audit", "--as-of", "2").out
    assert ledger("incident", "note", "1", "later").code == 0
    assert ledger("audit", "--as-of", "2").out == old

    assert ledger("audit", "--verify", head).code == 0
    assert ledger("audit", "--verify", head.upper()).code == 0
    engine = create_engine(database_url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text("set session_replication_role = 'replica'"))
        connection.execute(text("update revision set chain = sha256(chain) where rev = 3"))
    engine.dispose()
    answer = ledger("audit", "--verify", head)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == (
        "gpu-minutes: revision 3 has another value than the published one: it or an act before it was rewritten\n"
    )
    assert json.loads(ledger("audit", "--verify", head, "--format", "json").out)["same"] is False


def test_a_published_value_of_an_act_that_is_gone_is_seen(ledger: Cli) -> None:
    answer = ledger("audit", "--verify", f"8:{'0' * 64}")
    assert (answer.code, answer.err) == (
        1, "gpu-minutes: there is no revision 8 in this ledger, the newest is 2: acts are missing\n",
    )  # fmt: skip
    for bad in ("8", "x:00", f"0:{'0' * 64}", f"1:{'0' * 63}"):
        answer = ledger("audit", "--verify", bad)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith("gpu-minutes: --verify: give REVISION:HEX as gpu-minutes audit --head prints it")
    assert ledger("audit", "--head", "--since", "1").code == 2
