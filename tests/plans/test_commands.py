"""The commands: maintenance.csv in, every fault in one clear line, and the list of what was declared."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.conftest import Cli

FLEET = (
    "site,hall,rack,node,gpus,model,commissioned,timezone\n"
    "ny,h,r,n1,8,H100,2026-01-01,America/New_York\nny,h,r,n2,8,H100,2026-01-01,America/New_York\n"
)
HEAD = "id,start,end,scope,declared_at,what,timezone,rrule,actual_end\n"
NY = "America/New_York"


@pytest.fixture
def fleet(cli: Cli, tmp_path: Path) -> Cli:
    (tmp_path / "fleet.csv").write_text(FLEET)
    assert cli("fleet", "load", "fleet.csv").code == 0
    return cli


def row(**cells: str) -> str:
    base = {
        "id": "w", "start": "2026-03-10T02:00", "end": "2026-03-10T04:00", "scope": "n1", "declared_at": "2026-03-01",
        "what": "work", "timezone": NY, "rrule": "FREQ=WEEKLY", "actual_end": "",
    }  # fmt: skip
    return ",".join(f'"{cell}"' for cell in (base | cells).values()) + "\n"


FAULTS = [
    (
        row(timezone="America/NewYork"),
        "timezone: 'America/NewYork' is no IANA time zone; did you mean America/New_York",
    ),
    (row(rrule="every tuesday"), "rrule: 'EVERY TUESDAY' is no part of an RFC 5545 rule such as FREQ=WEEKLY;BYDAY=TU"),
    (row(rrule="FREQ=SOMETIMES"), "rrule: 'FREQ=SOMETIMES' is no RFC 5545 rule"),
    (row(rrule="FREQ=WEEKLY;BYDAY=XX"), "rrule: BYDAY=XX: 'XX' is no day such as TU"),
    (row(rrule="FREQ=WEEKLY;INTERVAL=0"), "rrule: INTERVAL=0 is not from 1 to 1000000"),
    (row(rrule="FREQ=WEEKLY;FREQ=DAILY"), "rrule: FREQ stands twice"),
    (row(rrule="FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"), "rrule: BYMONTH cannot stand in a rule with FREQ=DAILY"),
    (row(rrule="FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"), "rrule: yields nothing: no day of the calendar fits it"),
    (row(rrule="FREQ=HOURLY;INTERVAL=24;BYHOUR=3"), "rrule: yields nothing"),
    (row(rrule="FREQ=WEEKLY;BYDAY=WE"), "rrule: does not give the first occurrence, 2026-03-10T02:00:00 in"),
    (row(rrule="FREQ=SECONDLY"), "rrule: FREQ=SECONDLY is too fine"),
    (row(rrule="FREQ=MINUTELY"), "rrule: FREQ=MINUTELY is too fine"),
    (row(rrule="FREQ=HOURLY"), "rrule: an occurrence of 2 h has not ended when the next begins, 1 h after it"),
    (row(rrule="FREQ=DAILY;COUNT=3;UNTIL=20260401T000000Z"), "rrule: has both COUNT and UNTIL"),
    (row(rrule="FREQ=DAILY;UNTIL=20260301T000000Z"), "rrule: UNTIL is before the start 2026-03-10T06:00:00Z"),
    (row(rrule="FREQ=DAILY;UNTIL=20260230"), "rrule: UNTIL=20260230 is no time such as"),
    (
        row(start="2026-03-10T02:00:00Z", end="2026-03-10T03:00:00Z", timezone=""),
        "timezone: is blank; a rule needs the zone",
    ),
    (row(end="2026-03-10T01:00"), "end: 2026-03-10T01:00 is not after the start 2026-03-10T02:00"),
    (row(end="2026-03-10T02:00"), "end: 2026-03-10T02:00 is not after the start"),
    (row(timezone="", rrule="", end="2026-03-10T09:00:00Z"), "start: '2026-03-10T02:00' has no offset from UTC; add Z"),
    (row(declared_at=""), "declared_at: is blank; a value is needed"),
    (row(rrule="", actual_end="2026-03-10T01:59"), "actual_end: 2026-03-10T01:59 is before the start"),
    (row(actual_end="2026-03-10T03:00"), "actual_end: cannot stand beside a rule"),
    (row(start="2026-03-08T02:30"), "start: 2026-03-08T02:30 is skipped by the clocks of America/New_York"),
    (row(rrule="", end="2027-03-12"), "end: is more than 366 days after the start"),
    (row(id="a@b"), "id: 'a@b' holds '@'"),
    (row(scope="n9"), "scope: unknown node 'n9'"),
]


def test_every_fault_is_one_line_and_nothing_is_stored(fleet: Cli, tmp_path: Path) -> None:
    for bad, reason in FAULTS:
        (tmp_path / "m.csv").write_text(HEAD + row(id="good") + bad)
        answer = fleet("import", "maintenance", "m.csv")
        assert (answer.code, answer.out) == (2, ""), answer
        assert answer.err.startswith(f"gpu-minutes: m.csv line 3, column {reason}"), answer.err
        assert len(answer.err.splitlines()) == 1, answer.err
    assert json.loads(fleet("maintenance", "list", "--format", "json").out)["windows"] == []
    (tmp_path / "m.csv").write_text("id,start,end,scope,what\n1,2026-01-01,2026-01-02,n1,x\n")
    assert "column declared_at is missing" in fleet("import", "maintenance", "m.csv").err
    (tmp_path / "e.csv").write_text("id,source,start,end,scope,state\n1,maintenance,2026-01-01,2026-01-02,n1,down\n")
    assert "column source: 'maintenance' is the name of declared windows" in fleet("import", "evidence", "e.csv").err


def test_list(fleet: Cli, tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text(
        "id,source,start,end,scope,state\n1,ops,2026-03-10T07:00:00Z,2026-03-10T09:00:00Z,n1,down\n"
        "2,ops,2026-03-12T00:00:00Z,2026-03-12T01:00:00Z,n2,idle\n"
    )
    (tmp_path / "m.csv").write_text(
        HEAD
        + row(id="tuesdays", start="2026-03-03T02:00", end="2026-03-03T04:00", scope="rack:r", rrule="FREQ=WEEKLY")
        + row(id="late", start="2026-03-11T12:00:00Z", end="2026-03-11T13:00:00Z", declared_at="2026-03-11T12:30:00Z",
              timezone="", rrule="", actual_end="2026-03-11T13:10:00Z")
        + row(id="next year", start="2027-03-11", end="2027-03-12", rrule="")
    )  # fmt: skip
    assert fleet("import", "evidence", "e.csv").code == 0
    answer = fleet("import", "maintenance", "m.csv")
    assert answer.code == 0, answer.err
    # Two Tuesdays, the late one and its overrun.
    assert "3 rows read, 3 kept\n4 occurrences written or withdrawn so far" in answer.out
    assert "nothing changed" in fleet("import", "maintenance", "m.csv").out
    options = ("maintenance", "list", "--to", "2026-03-18")
    found = list(csv.DictReader(io.StringIO(fleet(*options, "--format", "csv").out)))
    columns = ("id", "start", "start_local", "gpus", "declared_late", "planned_gpu_ms", "overrun_gpu_ms")
    minute = 60_000
    assert [tuple(w[column] for column in columns) for w in found] == [
        ("tuesdays", "2026-03-03T07:00:00Z", "2026-03-03T02:00:00-05:00", "16", "False", str(16 * 120 * minute), "0"),
        # The fault of n1 begins inside and is over an hour after the end.
        ("tuesdays", "2026-03-10T06:00:00Z", "2026-03-10T02:00:00-04:00", "16", "False", str(16 * 120 * minute),
         str(8 * 60 * minute)),
        ("late", "2026-03-11T12:00:00Z", "2026-03-11T12:00:00+00:00", "8", "True", str(8 * 60 * minute),
         str(8 * 10 * minute)),
        ("tuesdays", "2026-03-17T06:00:00Z", "2026-03-17T02:00:00-04:00", "16", "False", "", ""),
    ]  # fmt: skip
    table = fleet(*options).out
    assert "2026-03-10 02:00 to 04:00 -04:00" in table
    assert "2026-03-11T12:30:00Z late" in table
    assert "4 windows, 1 of them not booked yet; declared to begin later: 1 (a later --to shows them)" in table
    before = fleet(*options, "--as-of", "3", "--format", "json").out
    (tmp_path / "m.csv").write_text(HEAD + row(id="tuesdays", start="2026-03-03T02:00", end="2026-03-03T03:00"))
    refused = fleet("import", "maintenance", "m.csv")
    assert refused.code == 2
    assert "column id: 'tuesdays' is declared with other content" in refused.err
    assert fleet("import", "maintenance", "m.csv", "--revise").code == 0
    assert fleet(*options, "--as-of", "3", "--format", "json").out == before
    assert "--to is not after --from" in fleet("maintenance", "list", "--to", "2025-01-01").err
    assert fleet("check").code == 0
