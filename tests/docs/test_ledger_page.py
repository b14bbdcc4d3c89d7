"""The page about the ledger: its commands, run in order on one ledger, print what it says; its files are as it says."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest

from tests.docs.consoles import ROOT, blocks, prints, run_page, steps
from warehouse.evidence import fleet_csv, gpus_csv, rates_csv
from warehouse.evidence.sources import allocations, evidence, maintenance

PAGE = (ROOT / "docs" / "ledger.md").read_text(encoding="utf-8")
EXAMPLES = ROOT / "examples" / "ledger"
ROLES = ("gpu_minutes_app", "gpu_minutes_reader")


@pytest.fixture
def without_roles(database_url: str) -> Iterator[str]:
    """A fresh database; roles are the server's, so those of the page are taken away again."""
    yield database_url
    with psycopg.connect(database_url, autocommit=True) as connection:
        made = connection.execute("select rolname from pg_roles where rolname = any(%s)", (list(ROLES),)).fetchall()
        for (role,) in made:
            connection.execute(f"drop owned by {role}".encode())
            connection.execute(f"drop role {role}".encode())


@pytest.mark.slow
def test_every_command_prints_what_the_page_says(without_roles: str) -> None:
    ran = run_page(PAGE, without_roles)
    assert len(ran) == len(re.findall(r"^\$ ", PAGE, flags=re.MULTILINE)) > 25
    with psycopg.connect(without_roles) as connection:
        granted = "select has_table_privilege(%s, 'ledger_entry', %s)"
        for role, right, may in [
            ("gpu_minutes_app", "insert", True),
            ("gpu_minutes_app", "delete", False),
            ("gpu_minutes_reader", "select", True),
            ("gpu_minutes_reader", "insert", False),
        ]:
            assert connection.execute(granted, (role, right)).fetchone() == (may,), (role, right)


def test_the_marker_hides_no_more_than_its_line() -> None:
    assert prints("closed 12:30 by ann at revision 9\n", "closed … by … at revision 9\n")
    assert not prints("closed 12:30 by ann at revision 8\n", "closed … by … at revision 9\n")
    assert not prints("15:ab\nand more\n", "15:…\n")


def test_little_is_hidden() -> None:
    hidden = [line for kind, block in blocks(PAGE) if kind == "console" for line in block.splitlines() if "…" in line]
    assert [line for line in hidden if not re.search(r"closed … by …|^15:…|^  …  ann  ", line)] == []


def test_the_formats_of_files_are_those_that_are_read() -> None:
    section = re.sub(r"\n +\[", "[", PAGE.split("## Files\n", 1)[1])
    said = dict(re.findall(r"^    ([a-z]+)\.csv +(\S+)$", section, flags=re.MULTILINE))
    readers = {
        "fleet": fleet_csv, "gpus": gpus_csv, "rates": rates_csv, "allocations": allocations, "evidence": evidence,
        "maintenance": maintenance,
    }  # fmt: skip
    assert said.keys() == readers.keys()
    for name, columns in said.items():
        required, optional = columns.removesuffix("]").split("[,")
        assert sorted(required.split(",")) == sorted(readers[name].REQUIRED), name
        assert sorted(optional.split(",")) == sorted(readers[name].OPTIONAL), name


def test_every_example_is_used() -> None:
    commands = " ".join(command for kind, block in blocks(PAGE) if kind == "console" for command, _ in steps(block))
    assert set(re.findall(r"examples/ledger/(\S+)", commands)) == {p.name for p in EXAMPLES.iterdir()}


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\((?!http)([^)#]+)\)", PAGE))))
def test_every_link_leads_somewhere(target: str) -> None:
    assert (ROOT / "docs" / target).exists()
