"""Random small worlds, told to the real pipeline on a real PostgreSQL: four nodes of two GPUs, three days, by hours.

The days hold the spring change of America/New_York, so that a day has 23 hours.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, create_engine, text

from warehouse import pipeline
from warehouse.model.evidence import Allocation, Evidence
from warehouse.model.fleet import NodeSpec
from warehouse.model.rate import RateSpec
from warehouse.model.state import PARTIAL, State
from warehouse.model.statement import Batch, Statement
from warehouse.model.time import MS_PER_HOUR, parse_instant
from warehouse.pipeline import Act, Done
from warehouse.store import migrate, revisions
from warehouse.store.revisions import Revision

START = parse_instant("2026-03-07")
HOURS = 72
GPUS = 2
NODES = {"a1": "ra", "a2": "ra", "b1": "rb", "b2": "rb"}
SCOPES = ("a1", "a1/0", "a2/1", "b1", "b2", "rack:ra", "rack:rb", "hall:h", "a2+b1/0")
CAUSES = ("host/dram", "power/psu", "fabric/nic", None)
TENANTS = ("red", "blue")


# A world of which nothing has to be drawn: the four nodes from the start, at two dollars an hour.
ALL_NODES = tuple(
    NodeSpec("s", "h", rack, name, GPUS, "H100", START, timezone="America/New_York") for name, rack in NODES.items()
)
FLAT_RATE = (RateSpec("list", "H100", "USD", Decimal(2), START),)


def at(hour: float) -> int:
    """Gives the millisecond so many hours after the world's start."""
    return START + round(hour * MS_PER_HOUR)


@dataclass(frozen=True, slots=True)
class World:
    """A fleet, what was said of it, and what it costs."""

    nodes: tuple[NodeSpec, ...]
    items: tuple[Evidence | Allocation, ...]
    rates: tuple[RateSpec, ...]


def spans() -> st.SearchStrategy[tuple[int, int]]:
    """Gives hours [start, end), not empty."""
    return st.tuples(st.integers(0, HOURS - 1), st.integers(1, 30)).map(lambda s: (s[0], min(s[0] + s[1], HOURS)))


@st.composite
def fleets(draw: st.DrawFn) -> tuple[NodeSpec, ...]:
    """Draws the four nodes: two models, later arrivals, early leavers, racked without power."""
    nodes = []
    for name, rack in NODES.items():
        arrives = draw(st.sampled_from([0, 0, 0, 5, 30]))
        leaves = draw(st.sampled_from([None, None, None, arrives + 20]))
        nodes.append(
            NodeSpec(
                "s", "h", rack, name, GPUS, draw(st.sampled_from(["H100", "B200"])), at(arrives),
                None if leaves is None else at(leaves), timezone="America/New_York",
                stranded=draw(st.integers(0, 9)) == 0,
            )
        )  # fmt: skip
    return tuple(nodes)


@st.composite
def evidence(draw: st.DrawFn, key: str, states: Sequence[State] = tuple(State)) -> Evidence:
    """Draws one piece of evidence that ended."""
    start, end = draw(spans())
    state = draw(st.sampled_from(states))
    lost = draw(st.sampled_from([None, 1, 333_333, 1_000_000])) if state in PARTIAL else None
    cause = draw(st.sampled_from(CAUSES))
    scope = draw(st.sampled_from(SCOPES))
    return Evidence("ops", key, at(start), at(end), scope, (), state, cause=cause, lost_ppm=lost)


@st.composite
def worlds(draw: st.DrawFn, states: Sequence[State] = tuple(State), most: int = 8) -> World:
    """Draws a world. Jobs hold whole nodes and may contest one another."""
    items: list[Evidence | Allocation] = []
    for number in range(draw(st.integers(0, most))):
        items.append(draw(evidence(f"e{number}", states)))
    for number in range(draw(st.integers(0, 3))):
        start, end = draw(spans())
        tenant, scope = draw(st.sampled_from(TENANTS)), draw(st.sampled_from(["a1", "a2+b1", "rack:rb"]))
        items.append(Allocation(f"j{number}", 1, tenant, "training", at(start), at(end), scope, ()))
    # A price that changes, a model that has none before the second day.
    rates = (
        RateSpec("list", "H100", "USD", Decimal("2.49"), START, at(40)),
        RateSpec("list", "H100", "USD", Decimal("3.01"), at(40)),
        RateSpec("list", "B200", "USD", Decimal("5.33333333"), at(24)),
    )
    return World(draw(fleets()), tuple(items), rates)


def act(kind: str = "import") -> Act:
    """Gives the head of a revision, written a day after the world's end."""
    return Act(kind, "tester", "law", at(HOURS + 24))


def tell(engine: Engine, *items: Evidence | Allocation, **options: bool) -> Done:
    """Tells the ledger items in the order given."""
    statements = tuple(Statement(f"item {number}", item) for number, item in enumerate(items, start=1))
    return pipeline.take_in(engine, Batch(statements, len(statements)), act(), **options)


def build(engine: Engine, world: World, parts: int = 1, rng: random.Random | None = None) -> None:
    """Empties the ledger and tells it a world, its items in so many batches; `rng` shuffles and repeats them."""
    empty(engine)
    pipeline.load_rates(engine, world.rates, act("rates"))
    pipeline.load_fleet(engine, world.nodes, act("fleet"))
    items = list(world.items)
    if rng is not None:
        items += [item for item in items if rng.random() < 0.3]
        rng.shuffle(items)
    size = max(1, -(-len(items) // parts))
    for first in range(0, len(items), size):
        tell(engine, *items[first : first + size])
    # Whatever was said, the ledger speaks of all three days.
    pipeline.book(engine, act("derive"), until_ms=at(HOURS))


def open_engine(url: str) -> Engine:
    """Gives an engine on a migrated database, in a session zone that is not the site's and not UTC."""
    engine = create_engine(
        url.replace("postgresql:", "postgresql+psycopg:"), connect_args={"options": "-c timezone=Asia/Kolkata"}
    )
    migrate.upgrade(engine)
    return engine


def empty(engine: Engine) -> None:
    """Takes every row but the causes out of the ledger, behind its guards' back: cheaper than a new database."""
    with engine.begin() as connection:
        connection.execute(text("set local session_replication_role = 'replica'"))
        tables = connection.execute(
            text(
                "select string_agg(quote_ident(tablename), ', ') from pg_tables where schemaname = 'public' "
                "and tablename not in ('cause', 'alembic_version')"
            )
        ).scalar_one()
        connection.execute(text(f"truncate {tables} restart identity"))


def newest(connection: Connection) -> Revision:
    """Gives the newest revision."""
    revision = revisions.latest(connection)
    assert revision is not None
    return revision
