"""Two small sites, New York and Berlin, and words to close their months with."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from sqlalchemy import Connection, Engine, text

from tests.store.ledgers import open_engine
from warehouse import pipeline
from warehouse.acts.close import Closed
from warehouse.acts.close import close as close_act
from warehouse.acts.reprice import reprice as reprice_act
from warehouse.model.evidence import Allocation, Evidence
from warehouse.model.fleet import NodeSpec
from warehouse.model.rate import RateSpec
from warehouse.model.state import State
from warehouse.model.statement import Batch, Statement
from warehouse.model.time import parse_instant
from warehouse.pipeline import Act, Done
from warehouse.store import revisions
from warehouse.views.postings import ties

YEAR = parse_instant("2026-01-01")
NOW = parse_instant("2026-12-20")
YORK, BERLIN = "America/New_York", "Europe/Berlin"


def act(kind: str, now_ms: int = NOW) -> Act:
    return Act(kind, "tester", "test", now_ms)


def node(name: str, site: str = "york", model: str = "H100", zone: str = YORK, **more: object) -> NodeSpec:
    since = more.pop("since", "2026-07-01T00:00:00-04:00")
    return NodeSpec(site, "hall", f"rack-{site}", name, 4, model, parse_instant(str(since)), timezone=zone, **more)  # type: ignore[arg-type]


def rate(price: str, model: str = "H100", card: str = "list", currency: str = "USD", **span: str) -> RateSpec:
    start, end = span.get("start", "2026-01-01"), span.get("end")
    return RateSpec(card, model, currency, Decimal(price), parse_instant(start), parse_instant(end) if end else None)


def farm(url: str, nodes: Sequence[NodeSpec], *prices: RateSpec, until: str = "2026-12-02") -> Engine:
    engine = open_engine(url)
    pipeline.load_fleet(engine, nodes, act("fleet"))
    pipeline.load_rates(engine, prices, act("rates"))
    pipeline.book(engine, act("derive"), until_ms=parse_instant(until))
    return engine


def down(
    key: str, start: str, end: str | None, scope: str, cause: str | None = "host/dram", **more: object
) -> Evidence:
    state = more.pop("state", State.DOWN)
    end_ms = None if end is None else parse_instant(end)
    return Evidence("ops", key, parse_instant(start), end_ms, scope, (), state, cause, **more)  # type: ignore[arg-type]


def held(job: str, tenant: str, start: str, end: str, scope: str) -> Allocation:
    return Allocation(job, 1, tenant, "training", parse_instant(start), parse_instant(end), scope, ())


def say(engine: Engine, *items: Evidence | Allocation, **options: bool) -> Done:
    statements = tuple(Statement(f"item {number}", item) for number, item in enumerate(items, start=1))
    return pipeline.take_in(engine, Batch(statements, len(statements)), act("import"), **options)


def close(engine: Engine, code: str, site: str | None = None, now_ms: int = NOW) -> Closed:
    return close_act(engine, code, act("close", now_ms), site)


def reprice(engine: Engine, *specs: RateSpec) -> Done:
    return reprice_act(engine, specs, act("reprice")).done


Row = tuple[object, ...]


def postings(connection: Connection, billing: str, card: str = "list") -> list[Row]:
    """Gives (charge day, what, state, cause, price, GPU-minutes, lost GPU-minutes) of one month's books, in order."""
    rows = connection.execute(
        text(
            "select charge_day::text, case when reverses is null then kind else 'reversal' end as what, state, cause, "
            "per_gpu_hour, gpu_ms / 60000 as minutes, lost_gpu_ms / 60000 as lost from posting "
            "where billing = :billing and card = :card order by id"
        ),
        {"billing": billing, "card": card},
    )
    return [
        (r[0], r.what, r.state, r.cause, None if r.per_gpu_hour is None else str(r.per_gpu_hour.normalize()),
         float(r.minutes), float(r.lost))
        for r in rows
    ]  # fmt: skip


def books(engine: Engine, billing: str, card: str = "list") -> list[Row]:
    with engine.connect() as connection:
        return postings(connection, billing, card)


def corrections(engine: Engine, billing: str, card: str = "list") -> list[Row]:
    return [row for row in books(engine, billing, card) if row[1] != "usage"]


def assert_ties(engine: Engine) -> None:
    """The law: postings of each closed month sum to the ledger at its head."""
    with engine.connect() as connection:
        revision = revisions.latest(connection)
        assert revision is not None
        assert ties(connection, revision) is None
