"""The fleet file: contract and currency, nodes that come, go and move in the middle of a month."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Cli

HEAD = "site,hall,rack,node,gpus,model,commissioned,retired,timezone,contract,currency\n"
N1 = "s,h,r1,n1,4,H100,2026-06-01,{retired},UTC,{contract},{currency}\n"


def line(retired: str = "", contract: str = "c-1", currency: str = "EUR") -> str:
    return N1.format(retired=retired, contract=contract, currency=currency)


def load(cli: Cli, folder: Path, *lines: str) -> str:
    (folder / "fleet.csv").write_text(HEAD + "".join(lines))
    answer = cli("fleet", "load", "fleet.csv")
    assert answer.code == (2 if answer.err else 0)
    return answer.err or answer.out


def gpus(cli: Cli, folder: Path, *lines: str) -> str:
    (folder / "gpus.csv").write_text("node,index,from,uuid,serial\n" + "\n".join(lines) + "\n")
    answer = cli("fleet", "gpus", "load", "gpus.csv")
    assert answer.code == (2 if answer.err else 0)
    return answer.err or answer.out


def test_contract_and_currency_are_kept_and_shown_and_can_be_loaded_again(cli: Cli, tmp_path: Path) -> None:
    other = "s,h,r1,n2,4,H100,2026-06-01,,,,\n"
    assert "2 nodes added" in load(cli, tmp_path, line(), other)
    assert "GPU placed" in gpus(cli, tmp_path, "n1,2,2026-06-03,,9")
    assert "slot emptied" in gpus(cli, tmp_path, "n1,3,2026-06-04,,")
    shown = cli("fleet", "show", "--format", "csv").out
    assert [shown.splitlines()[1].split(",")[n] for n in (3, 13, 14)] == ["n1", "c-1", "EUR"]
    assert [shown.splitlines()[2].split(",")[n] for n in (3, 13, 14)] == ["n2", "", "EUR"]
    (tmp_path / "again.csv").write_text(shown)
    assert cli("fleet", "load", "again.csv").out == "2 nodes, all of them already in the ledger; nothing changed\n"
    table = cli("fleet", "show").out
    assert "contract" in table
    assert "empty now, and part of no figure: 1 slot;" in table


FAULTS = [
    (line(contract="c-2"), "fleet.csv line 2, column contract: node n1: is already in the ledger on contract c-1 "
     "since 2026-06-01T00:00:00Z, not on c-2"),
    (line(currency="USD"), "fleet.csv line 2, column currency: site s: is in the ledger in EUR, not in USD; "
     "the currency of a site cannot change"),
    (line().replace("UTC", "Europe/Berlin").replace("2026-06-01", "2026-06-01T00:00:00Z"),
     "fleet.csv line 2, column timezone: site s: is in time zone UTC, not Europe/Berlin"),
    (line(currency="euro"), "fleet.csv line 2, column currency: 'euro' is no ISO 4217 currency"),
    (line() + line(currency="USD").replace("n1", "n3"),
     "fleet.csv line 3, column currency: site s already has EUR in line 2; a site has one currency"),
    (line().replace("r1", "r2").replace("2026-06-01", "2026-06-10"),
     "fleet.csv line 2, column commissioned: node n1: its tenure overlaps the one in the ledger: it stands in h/r1 "
     "since 2026-06-01T00:00:00Z and was never retired; add that row with retired at 2026-06-10T00:00:00Z or before"),
    (line().replace("r1", "r2"),
     "fleet.csv line 2, column node: node n1: is already in the ledger as 4 x H100 in h/r1"),
    (line(retired="2026-06-05"), "fleet.csv line 2, column retired: node n1: the ledger knows of a GPU change in n1/0 "
     "at 2026-06-07T00:00:00Z; retire it after that"),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "reason"), FAULTS, ids=[reason[19:60] for _, reason in FAULTS])
def test_what_contradicts_the_ledger_is_one_line(cli: Cli, tmp_path: Path, rows: str, reason: str) -> None:
    load(cli, tmp_path, line())
    gpus(cli, tmp_path, "n1,0,2026-06-07,A,1")
    said = load(cli, tmp_path, rows)
    assert said.startswith(f"gpu-minutes: {reason}"), said
    assert len(said.splitlines()) == 1
    assert '"revision": 2' in cli("fleet", "show", "--format", "json").out


def test_a_site_without_a_currency_stays_without(cli: Cli, tmp_path: Path) -> None:
    load(cli, tmp_path, line(currency="", contract=""))
    said = load(cli, tmp_path, line(contract=""))
    assert "column currency: site s: is in the ledger without a currency, not in EUR" in said
    assert "column contract: node n1: is already in the ledger on no contract" in load(cli, tmp_path, line(currency=""))


def test_the_denominator_follows_what_is_installed(cli: Cli, tmp_path: Path) -> None:
    """n1 all June, n2 from 10 June 12:00, n3 until 20 June 06:00, four GPUs each; one GPU leaves n1 on 25 June."""
    rows = [
        line(), "s,h,r1,n2,4,H100,2026-06-10T12:00:00Z,,,,\n", "s,h,r1,n3,4,H100,2026-06-01,2026-06-20T06:00:00Z,,,\n",
    ]  # fmt: skip
    load(cli, tmp_path, *rows)
    gpus(cli, tmp_path, "n1,0,2026-06-25,,")
    answer = cli("goodput", "--from", "2026-06-01", "--to", "2026-07-01", "--by", "day", "--format", "json")
    document = json.loads(answer.out)
    hours = {row["key"][-2:]: row["gpu_ms"] / 3_600_000 for row in document["rows"]}
    assert hours["09"] == 8 * 24
    assert hours["10"] == 8 * 24 + 4 * 12
    assert hours["11"] == 12 * 24
    assert hours["20"] == 8 * 24 + 4 * 6
    assert hours["24"] == 8 * 24
    assert hours["25"] == 7 * 24
    # 9 days of 8, 1 of 10, 9 of 12, 1 of 9, 4 of 8, 6 of 7 GPUs.
    assert document["installed_gpu_ms"] == (9 * 8 + 10 + 9 * 12 + 9 + 4 * 8 + 6 * 7) * 86_400_000
    assert cli("check").code == 0


def test_a_node_moves_and_its_gpus_keep_their_names(cli: Cli, tmp_path: Path) -> None:
    load(cli, tmp_path, line())
    gpus(cli, tmp_path, *(f"n1,{n},2026-06-01,A{n},{n}" for n in range(4)))
    moved = line().replace("r1", "r9").replace("2026-06-01", "2026-06-12")
    assert "1 nodes added, 1 retired" in load(cli, tmp_path, line(retired="2026-06-11"), moved)
    # Between the two it is on a lorry and nowhere installed.
    refused = gpus(cli, tmp_path, "n1,0,2026-06-11,A0,")
    assert "nothing is installed in n1 at 2026-06-11T00:00:00Z; the fleet file has it from" in refused
    # A GPU of another place may come in as well; the GPUs need not sit in their old order.
    assert "4 GPUs placed;" in gpus(cli, tmp_path, *(f"n1,{n},2026-06-12,A{3 - n}," for n in range(4)))
    stays = json.loads(cli("fleet", "history", "--gpu", "A0", "--format", "json").out)["stays"]
    assert [(s["slot"], s["from"][:10], (s["to"] or "")[:10]) for s in stays] == [
        ("n1/0", "2026-06-01", "2026-06-11"), ("n1/3", "2026-06-12", ""),
    ]  # fmt: skip
    assert cli("check").code == 0
