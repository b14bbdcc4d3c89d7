"""Law 10, calendar: months follow the site's zone, and nothing that belongs to the viewer changes a figure."""

from __future__ import annotations

import os
import time

import pytest
from sqlalchemy import Connection, Engine, text

from tests.laws.statements import broken
from tests.laws.worlds import ALL_NODES, FLAT_RATE, HOURS, World, at, build, newest, open_engine
from warehouse import pipeline, views
from warehouse.model.evidence import Evidence
from warehouse.model.state import State
from warehouse.model.time import MS_PER_HOUR
from warehouse.views.check import check


@pytest.mark.parametrize(("month", "hours"), [("2026-03", 743), ("2026-11", 721), ("2026-04", 720)])
def test_law_10_months(engine: Engine, month: str, hours: int) -> None:
    """In America/New_York March has 743 hours and November 721."""
    build(engine, World(ALL_NODES, (), ()))
    pipeline.book(engine, pipeline.Act("derive", "x", "law", at(24 * 300)), until_ms=at(24 * 300))
    with engine.connect() as connection:
        question = views.ask(connection, newest(connection), at(-24 * 30), at(24 * 299))
        rows = views.goodput(connection, question, "month")["rows"]
        assert isinstance(rows, list)
        gpu_ms = {row["key"]: row["gpu_ms"] for row in rows}
        # The fleet came on 7 March at midnight UTC: 143 hours, 19:00 of the 6th in New York, after its first midnight.
        missing = 6 * 24 - 5 if month == "2026-03" else 0
        assert gpu_ms[month] == 8 * (hours - missing) * MS_PER_HOUR


@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Kiritimati", "UTC"])
def test_law_10_viewer(engine: Engine, zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the session's zone nor the process's changes a figure of a day or month, or a link of the chain."""
    item = Evidence("ops", "a", at(20), at(50), "rack:ra", (), State.DOWN, cause="host/dram")
    build(engine, World(ALL_NODES, (item,), FLAT_RATE))
    with engine.connect() as connection:
        expected = [_shown(connection, by) for by in ("day", "month")]
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        url = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
        elsewhere = open_engine(url)
        with elsewhere.connect() as connection:
            connection.execute(text(f"set timezone = '{zone}'"))
            assert [_shown(connection, by) for by in ("day", "month")] == expected
            assert [p.said for p in check(connection, newest(connection)) if not p.holds] == []
            assert broken(connection) == []
        elsewhere.dispose()
    finally:
        monkeypatch.undo()
        time.tzset()
    assert os.environ.get("TZ") != zone


def _shown(connection: Connection, by: str) -> dict[str, object]:
    question = views.ask(connection, newest(connection), at(0), at(HOURS))
    return views.goodput(connection, question, by)
