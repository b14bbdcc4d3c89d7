"""gpu-minutes close and period as a user meets them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.conftest import Cli
from warehouse import clock
from warehouse.model.time import parse_instant

FLEET = """site,hall,rack,node,gpus,model,commissioned,timezone
york,h,r,m1,3,H100,2026-08-01,America/New_York
york,h,r,m2,1,B200,2026-08-01,America/New_York
"""
RATES = """card,model,currency,per_gpu_hour,effective_from
list,H100,USD,1,2026-01-01
"""
# 20 minutes of one GPU at 1.00: a third of a dollar each.
EVIDENCE = """id,source,start,end,scope,state,cause
1,ops,2026-09-05T10:00:00Z,2026-09-05T10:20:00Z,m1/0,down,host/dram
2,ops,2026-09-06T10:00:00Z,2026-09-06T10:20:00Z,m1/1,down,power/psu
3,ops,2026-09-07T10:00:00Z,2026-09-07T10:20:00Z,m1/2,down,fabric/nvlink
"""
LATE = """id,source,start,end,scope,state,cause
4,ops,2026-09-08T10:00:00Z,2026-09-08T10:20:00Z,m1/0,down,host/dram
"""


@pytest.fixture
def ledger(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setattr(clock, "now_ms", lambda: parse_instant("2026-11-15"))
    for name, content in {"fleet": FLEET, "rates": RATES, "evidence": EVIDENCE, "late": LATE}.items():
        (tmp_path / f"{name}.csv").write_text(content)
    for command in (
        ("fleet", "load", "fleet.csv"),
        ("rates", "load", "rates.csv"),
        ("import", "evidence", "evidence.csv"),
        ("book", "--to", "2026-11-02"),
    ):
        answer = cli(*command)
        assert answer.code == 0, answer.err
    return cli


def test_closing_says_what_it_closed(ledger: Cli) -> None:
    answer = ledger("close", "2026-09", "--reason", "books of september")
    assert answer.code == 0, answer.err
    assert (
        "2026-09 of site york is closed: 2026-09-01T04:00:00Z to 2026-10-01T04:00:00Z (720 h in America/New_York)"
        in (answer.out)
    )
    row = next(line for line in answer.out.splitlines() if line.startswith("york"))
    # 4 GPUs x 720 h; one hour of loss; the rest of 3 x 720 GPU-h unknown; 1 x 720 h of B200 unpriced.
    assert row.split("  ")[0] == "york" and "172,800" in row and "43,200" in row
    assert row.count("1.00 USD") == 2 and "2,159.00 USD" in row
    assert "site york, card list: 43,200 GPU-minutes have no price" in answer.err
    again = ledger("close", "2026-09")
    assert again.code == 2 and again.out == ""
    assert again.err.startswith("gpu-minutes: 2026-09 of site york is closed already: 2026-11-15T00:00:00Z, by ")


@pytest.mark.parametrize("code", ["2026-11", "2026-9", "=1+1"])
def test_a_refusal_is_one_line(ledger: Cli, code: str) -> None:
    answer = ledger("close", code)
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)


def test_the_list_of_months(ledger: Cli) -> None:
    ledger("close", "2026-09", "--reason", "books of september")
    months = json.loads(ledger("period", "list", "--format", "json").out)["months"]
    assert [(m["month"], m["status"], m["hours"]) for m in months] == [
        ("2026-08", "open", "744"),
        ("2026-09", "closed", "720"),
        ("2026-10", "open", "744"),
        ("2026-11", "open", "721"),
    ]
    assert months[1]["reason"] == "books of september"
    assert months[1]["closed_at"] == "2026-11-15T00:00:00Z" and months[1]["closed_revision"] == 5
    rows = list(csv.DictReader(io.StringIO(ledger("period", "list", "--format", "csv").out)))
    assert [row["from"] for row in rows][1:] == ["2026-09-01T04:00:00Z", "2026-10-01T04:00:00Z", "2026-11-01T04:00:00Z"]
    before = json.loads(ledger("period", "list", "--format", "json", "--as-of", 4).out)["months"]
    assert [m["month"] for m in before] == ["2026-08", "2026-09", "2026-10", "2026-11"]
    assert {m["status"] for m in before} == {"open"}


def test_parts_are_rounded_once_and_sum(ledger: Cli) -> None:
    ledger("close", "2026-09")
    answer = json.loads(ledger("period", "show", "2026-09", "--by", "cause", "--format", "json").out)
    book = answer["sites"][0]["books"][0]
    (usage,) = book["charges"]
    lost = {row["key"]: row["cost_of_loss"] for row in usage["rows"]}
    # Three thirds of a dollar: one of them gets the cent that is left.
    assert sorted(lost.values()) == ["0.00", "0.33", "0.33", "0.34"]
    assert book["cost_of_loss"] == usage["cost_of_loss"] == "1.00"


def test_an_old_revision_gives_the_same_bytes(ledger: Cli) -> None:
    ledger("close", "2026-09")
    asked: list[tuple[object, ...]] = [("list", "--format", form) for form in ("table", "json", "csv")]
    for by in ("state", "cause", "class", "incident", "tenant", "day"):
        asked += [
            ("show", code, "--by", by, "--format", form) for code in ("2026-09", "2026-10") for form in ("json", "csv")
        ]
    asked.append(("show", "2026-09"))

    def answers() -> list[str]:
        return [ledger("period", *question, "--as-of", 5).out for question in asked]

    before = answers()
    answer = ledger("import", "evidence", "late.csv")
    assert (
        "closed month 2026-09 of site york, card list: 3 correction rows posted in 2026-10: "
        "worth +0.00 USD, cost of loss +0.33 USD\n"
    ) in answer.out
    assert ledger("close", "2026-10").code == 0
    assert answers() == before
    assert all(before)


def test_corrections_stand_apart_from_usage(ledger: Cli) -> None:
    ledger("close", "2026-09")
    ledger("import", "evidence", "late.csv")
    ledger("close", "2026-10")
    answer = ledger("period", "show", "2026-10", "--by", "cause", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(answer.out)))
    corrected = [
        (r["charge"], r["cause"], r["gpu_ms"], r["worth"], r["postings"]) for r in rows if r["kind"] != "usage"
    ]
    assert corrected == [
        ("2026-09", "host/dram", "1200000", "0.33", "1"),
        ("2026-09", "none", "-1200000", "-0.33", "2"),
    ]
    text = ledger("period", "show", "2026-10").out
    assert "corrects 2026-09" in text and "usage" in text
    assert ledger("check").code == 0


def test_what_cannot_be_shown(ledger: Cli) -> None:
    for arguments, reason in {
        ("2026-13",): "'2026-13' is no month such as 2026-10",
        ("2026-09", "--site", "x"): "--site: there is no site 'x'; known are york",
        ("2026-09", "--card", "x"): "--card: nothing of a card 'x' stands in the books of 2026-09",
    }.items():
        answer = ledger("period", "show", *arguments)
        assert (answer.code, answer.out) == (2, "") and reason in answer.err
    assert "nothing is posted in it" in ledger("period", "show", "2026-09").out
