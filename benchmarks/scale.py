"""`python -m benchmarks.scale [PODS DAYS]`: a year of 100,000 GPUs stored, asked, revised and proven.

One process builds the ledger through the product's own acts, month by month, on an embedded server with its default
settings; nothing is prepared that a site would not have. Smaller arguments try it and leave the page alone.
"""

from __future__ import annotations

import platform
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, text

from benchmarks import year
from benchmarks.page import table, write_block
from warehouse import pipeline, views
from warehouse.config import Config
from warehouse.model.entry import Entry
from warehouse.model.evidence import Evidence
from warehouse.model.rate import RateSpec
from warehouse.model.state import State
from warehouse.model.statement import Batch, Statement
from warehouse.model.time import MS_PER_DAY, MS_PER_HOUR, to_datetime
from warehouse.pipeline import Act
from warehouse.store import connect, entries, migrate, revisions
from warehouse.views.check import check

PODS = 196
DAYS = 365
TIMES = 5


@dataclass(slots=True)
class Copied:
    """Rows and seconds of the writing of entries alone, inside the acts."""

    rows: int = 0
    wall_s: float = 0.0


@dataclass(slots=True)
class Measured:
    """What the page says."""

    lines: list[tuple[str, str]] = field(default_factory=list)

    def add(self, what: str, figure: str) -> None:
        """Adds a line, and tells it at once: a run takes many minutes."""
        sys.stderr.write(f"{what}: {figure}\n")
        self.lines.append((what, figure))


def main(arguments: Sequence[str]) -> None:
    """Builds, measures, and writes the page where the size is the real one."""
    pods, days = (int(a) for a in arguments) if arguments else (PODS, DAYS)
    measured = Measured()
    with tempfile.TemporaryDirectory(prefix="gm-bench-") as home:
        config = Config(Path(home), None, None)
        engine = connect.open_engine(config)
        try:
            migrate.upgrade(engine)
            _build(engine, pods, days, measured)
            _ask(engine, days, measured)
            _revise(engine, days, measured)
            _prove(engine, measured)
        finally:
            engine.dispose()
            connect.stop_embedded(config)
    block = table(("", "measured"), measured.lines)
    block += (
        f"\n\n- {platform.python_implementation()} {platform.python_version()}, {platform.machine()}, two shared "
        f"cores, embedded PostgreSQL with its defaults; seed {year.SEED}."
    )
    if arguments:
        sys.stdout.write(block + "\n")
    else:
        write_block("scale", block)


def _act(kind: str, days: int) -> Act:
    return Act(kind, "bench", "benchmark", year.START_MS + days * MS_PER_DAY)


def _build(engine: Engine, pods: int, days: int, measured: Measured) -> None:
    wall = time.perf_counter()
    nodes = year.fleet(pods)
    pipeline.load_fleet(engine, nodes, _act("fleet", 0))
    measured.add("fleet loaded", f"{len(nodes) * year.GPUS:,} GPUs in {time.perf_counter() - wall:.1f} s")
    rate = RateSpec("list", "H100", "USD", year.PRICE, year.START_MS)
    pipeline.load_rates(engine, [rate], _act("rates", 0))
    copied = _watch_copies()
    statements, wall = 0, time.perf_counter()
    for number, month in enumerate(year.statements(pods, days), start=1):
        act = _act("import", min(number * 30, days))
        began = time.perf_counter()
        done = pipeline.take_in(engine, Batch(tuple(month), len(month)), act, until_ms=act.now_ms)
        statements += len(month)
        took = time.perf_counter() - began
        sys.stderr.write(f"month {number}: {len(month):,} in, {done.opened:,} out, {took:.1f} s\n")
    wall = time.perf_counter() - wall
    with engine.connect() as connection:
        rows = connection.execute(text("select count(*) from ledger_entry")).scalar_one()
        size = connection.execute(text("select pg_total_relation_size('ledger_entry')")).scalar_one()
    measured.add("statements taken in", f"{statements:,} in {wall:.0f} s, {statements / wall:,.0f} a second")
    measured.add("entries", f"{rows:,}, {size / 2**20:,.0f} MiB with indexes")
    measured.add(
        "entries written under the constraint", f"{copied.rows:,} rows, {copied.rows / copied.wall_s:,.0f} rows/s"
    )
    measured.add("peak memory of the process", f"{_peak_mb():,.0f} MB")


def _watch_copies() -> Copied:
    """Times the writing of entries wherever an act does it."""
    copied, change = Copied(), entries.change

    def timed(connection: Connection, closed: Sequence[int], opened: Sequence[Entry], rev: int) -> None:
        wall = time.perf_counter()
        change(connection, closed, opened, rev)
        copied.wall_s += time.perf_counter() - wall
        copied.rows += len(opened)

    entries.change = timed  # type: ignore[assignment]
    return copied


def _ask(engine: Engine, days: int, measured: Measured) -> None:
    start = year.START_MS + (days // 2) * MS_PER_DAY
    month = min(31, days - days // 2)
    with engine.connect() as connection:
        revision = revisions.latest(connection)
        assert revision is not None
        question = views.ask(connection, revision, start, start + month * MS_PER_DAY)
        for by in ("state", "cause", "tenant", "rack", "node"):
            measured.add(f"{month} days by {by}", _median(lambda by=by: views.goodput(connection, question, by)))
        day = to_datetime(start).date().isoformat()
        measured.add("one node-day", _median(lambda: views.node_day(connection, revision, "n000100", day)))
        ranked = views.incidents(connection, question)
        measured.add(f"{month} days of incidents", _median(lambda: views.incidents(connection, question)))
        costliest = int(str(ranked[0]["id"]))
        measured.add("one incident", _median(lambda: views.incident(connection, question, costliest)))
        plan = _plan(connection, start)
        measured.add("plan of a node-day", plan)


def _plan(connection: Connection, start_ms: int) -> str:
    """Gives the access path of one node-day as the planner chose it."""
    rows = connection.execute(
        text(
            "explain select * from ledger_entry where revs @> cast(1 as bigint) and "
            "area && area_of(int4range(800, 808), tstzrange(to_timestamp(:low), to_timestamp(:high)))"
        ),
        {"low": start_ms / 1000, "high": start_ms / 1000 + 86_400},
    ).scalars()
    return next(line.strip().split("  (", 1)[0] for line in rows if "Index" in line)


def _revise(engine: Engine, days: int, measured: Measured) -> None:
    at = year.START_MS + (days // 2) * MS_PER_DAY + 6 * MS_PER_HOUR
    late = Evidence("bench", "late", at, at + MS_PER_HOUR, "rack00003", ((192, 256),), State.DOWN)
    wall = time.perf_counter()
    done = pipeline.take_in(engine, Batch((Statement("late", late),), 1), _act("import", days))
    wall = time.perf_counter() - wall
    measured.add("late fault of one rack", f"{wall:.2f} s, {done.closed} entries closed, {done.opened} opened")


def _prove(engine: Engine, measured: Measured) -> None:
    wall = time.perf_counter()
    with engine.connect() as connection:
        revision = revisions.latest(connection)
        assert revision is not None
        proofs = list(check(connection, revision))
    broken = [proof for proof in proofs if not proof.holds]
    if broken:
        sys.exit(f"a law is broken: {broken[0]}")
    measured.add("check, all laws hold", f"{time.perf_counter() - wall:.0f} s, peak {_peak_mb():,.0f} MB")


def _median(ask: Callable[[], Any]) -> str:
    walls = []
    for _ in range(TIMES):
        wall = time.perf_counter()
        ask()
        walls.append(1_000 * (time.perf_counter() - wall))
    return f"{statistics.median(walls):,.0f} ms" if max(walls) >= 20 else f"{statistics.median(walls):.1f} ms"


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main(sys.argv[1:])
