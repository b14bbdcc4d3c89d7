"""A small ledger for tests: two racks of two nodes with four GPUs, driven through the pipeline itself."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, Engine, create_engine, text

from warehouse import pipeline, views
from warehouse.model.evidence import Allocation, Evidence
from warehouse.model.fleet import NodeSpec
from warehouse.model.state import State
from warehouse.model.statement import Batch, Statement
from warehouse.model.time import MS_PER_DAY, MS_PER_HOUR, parse_instant
from warehouse.pipeline import Act, Done
from warehouse.store import migrate, revisions
from warehouse.views.check import Proof, check

START = parse_instant("2026-01-01")
NOW = START + 20 * MS_PER_DAY
NODES = ("a1", "a2", "b1", "b2")
GPUS = 4


def at(hours: float) -> int:
    """Gives the millisecond so many hours after the fleet's start."""
    return START + round(hours * MS_PER_HOUR)


def act(kind: str = "import", now_ms: int = NOW) -> Act:
    return Act(kind, "tester", "test", now_ms)


def open_engine(url: str) -> Engine:
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    migrate.upgrade(engine)
    return engine


def with_fleet(url: str, retired_ms: int | None = None) -> Engine:
    engine = open_engine(url)
    nodes = [NodeSpec("s", "h", f"rack-{name[0]}", name, GPUS, "H100", START, retired_ms) for name in NODES]
    pipeline.load_fleet(engine, nodes, act("fleet"))
    return engine


def said(key: str, state: State, start: float, end: float | None, scope: str, **more: object) -> Evidence:
    end_ms = None if end is None else at(end)
    return Evidence(str(more.pop("source", "ops")), key, at(start), end_ms, scope, (), state, **more)  # type: ignore[arg-type]


def held(job: str, start: float, end: float | None, scope: str, tenant: str = "team-a") -> Allocation:
    return Allocation(job, 1, tenant, "training", at(start), None if end is None else at(end), scope, ())


def take_in(engine: Engine, *items: Evidence | Allocation, now_ms: int = NOW, **options: bool) -> Done:
    statements = tuple(Statement(f"item {number}", item) for number, item in enumerate(items, start=1))
    return pipeline.take_in(engine, Batch(statements, len(statements)), act(now_ms=now_ms), **options)


def tiling(engine: Engine) -> list[tuple[object, ...]]:
    """Gives the standing tiling in words that do not depend on row numbers."""
    with engine.connect() as connection:
        return _tiling(connection)


def _tiling(connection: Connection) -> list[tuple[object, ...]]:
    rows = connection.execute(
        text(
            "select e.slots::text, e.during::text, e.state::text, e.lost_ppm, e.cause, ev.source, ev.key, a.job, "
            "e.basis, e.rule, e.incident_id is not null as linked from ledger_head e "
            "left join evidence ev on ev.id = e.evidence_id left join allocation a on a.id = e.allocation_id "
            "order by e.during, e.slots"
        )
    )
    return [tuple(row) for row in rows]


def entry_rows(engine: Engine) -> Sequence[tuple[int, int, int, int, str, str | None]]:
    """Gives (slot from, to, start ms, end ms, state, evidence key) of the standing tiling."""
    with engine.connect() as connection:
        rows = connection.execute(
            text(
                "select lower(e.slots), upper(e.slots), ms_of(lower(e.during)), ms_of(upper(e.during)), e.state::text, "
                "ev.key from ledger_head e left join evidence ev on ev.id = e.evidence_id"
            )
        )
        return [tuple(row) for row in rows]


def grouping(engine: Engine) -> list[tuple[str, list[str]]]:
    """Gives (charged cause, evidence keys) of every standing incident, in order."""
    with engine.connect() as connection:
        rows = connection.execute(
            text(
                "select ic.cause, array_agg(ev.key order by ev.key) as keys from incident_evidence ie "
                "join evidence ev on ev.id = ie.evidence_id join incident_cause ic on ic.incident_id = ie.incident_id "
                "and ic.role = 'charged' and upper_inf(ic.revs) where upper_inf(ie.revs) "
                "group by ie.incident_id, ic.cause order by 2, 1"
            )
        )
        return [(row.cause, row[1]) for row in rows]


def goodput(engine: Engine, as_of: int | None = None, by: str = "state") -> dict[str, object]:
    """Gives goodput of the first ten days."""
    with engine.connect() as connection:
        revision = revisions.latest(connection, as_of)
        assert revision is not None
        return views.goodput(connection, views.ask(connection, revision, START, START + 10 * MS_PER_DAY), by)


def rows(document: dict[str, object]) -> dict[str, dict[str, int]]:
    """Gives the rows of an answer by key."""
    found = document["rows"]
    assert isinstance(found, list)
    return {row["key"]: row for row in found}


def prove(connection: Connection) -> list[Proof]:
    """Gives the proofs of all laws at the newest revision."""
    revision = revisions.latest(connection)
    assert revision is not None
    return list(check(connection, revision))
