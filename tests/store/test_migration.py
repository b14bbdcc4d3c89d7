"""A ledger that version 0001 wrote: its chain still proves after the upgrade, its figures are the same; down and up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import DBAPIError

from tests.store.ledgers import act, prove, tiling
from warehouse import pipeline, views
from warehouse.model.time import parse_instant
from warehouse.store import migrate, revisions

WRITTEN = Path(__file__).parent / "data" / "ledger_0001.sql"


@pytest.fixture
def old(any_database_url: str) -> Iterator[Engine]:
    """A ledger at version 0001, with the rows that the program of that time wrote."""
    engine = create_engine(any_database_url.replace("postgresql:", "postgresql+psycopg:"))
    migrate.upgrade(engine, "0001")
    with engine.begin() as connection:
        connection.exec_driver_sql(WRITTEN.read_text())
    yield engine
    engine.dispose()


def figures(engine: Engine, rev: int | None = None) -> dict[str, object]:
    with engine.connect() as connection:
        revision = revisions.latest(connection, rev)
        assert revision is not None
        return views.goodput(connection, views.ask(connection, revision, None, None), "state")


def holds(engine: Engine) -> None:
    with engine.connect() as connection:
        assert [f"{p.law}: {p.said}" for p in prove(connection) if not p.holds] == []


def test_an_old_ledger_comes_up(old: Engine) -> None:
    """Every law holds, the chain among them, and the figures are those that the old program showed."""
    migrate.upgrade(old)
    assert migrate.current(old) == migrate.newest()
    holds(old)
    document = figures(old)
    rows = document["rows"]
    assert isinstance(rows, list)
    assert {row["key"]: (row["gpu_ms"], row["cost_of_loss"]) for row in rows} == {
        "stranded": (1_022_400_000, "789.60"),
        "down": (763_200_000, "527.88"),
        "degraded": (50_401_000, "8.72"),
        "productive": (784_799_000, "0.00"),
        "unknown": (792_000_000, "547.80"),
    }
    assert (document["revision"], document["cost_of_loss"]) == (6, "536.60")
    assert document["unpriced_gpu_ms"] == 345_600_000


def test_an_old_ledger_goes_on(old: Engine) -> None:
    """What is written after the upgrade joins the same chain; the old revision reads as it did."""
    migrate.upgrade(old)
    before = figures(old, 6)
    now = parse_instant("2026-03-12T00:00:00Z")
    done = pipeline.book(old, act("derive", now), until_ms=now)
    assert (done.changed, done.rev) == (True, 7)
    holds(old)
    assert figures(old, 6) == before


def test_an_altered_row_of_an_old_ledger_shows(old: Engine) -> None:
    """The chain of the old program is proven, not merely carried along."""
    with old.begin() as connection:
        connection.execute(text("set local session_replication_role = 'replica'"))
        connection.execute(text("update allocation set tenant = 'blue' where job = 'j1'"))
    migrate.upgrade(old)
    with old.connect() as connection:
        broken = {p.law: p.said for p in prove(connection) if not p.holds}
    assert broken.keys() == {"history is append-only"}
    assert broken["history is append-only"].startswith("revision 4 (import by someone, ")


def test_down_and_up_again(old: Engine) -> None:
    """A ledger that uses nothing new goes down and up without losing a figure or a link."""
    migrate.upgrade(old)
    standing, shown = tiling(old), figures(old)
    migrate.downgrade(old, "0001")
    assert migrate.current(old) == "0001"
    migrate.upgrade(old)
    assert (tiling(old), figures(old)) == (standing, shown)
    holds(old)


def test_down_refuses_what_the_older_schema_cannot_hold(old: Engine) -> None:
    """Two contracts of one card and model: nothing is dropped, the schema stays where it is."""
    migrate.upgrade(old)
    with old.begin() as connection:
        connection.execute(
            text(
                "insert into rate_line (card, model, currency, contract, revs) "
                "select card, model, currency, 'own', '[7,)' from rate_line where model = 'H100'"
            )
        )
    with pytest.raises(DBAPIError, match="rate_line_card_model_key"):
        migrate.downgrade(old, "0001")
    assert migrate.current(old) == migrate.newest()
