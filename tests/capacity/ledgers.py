"""A fleet for tests of GPUs: two nodes of two GPUs and a spare node of one, since the first of January 2026."""

from __future__ import annotations

from sqlalchemy import Engine, text

from tests.store.ledgers import NOW, START, act, open_engine
from warehouse import pipeline
from warehouse.acts.install import Installed, install
from warehouse.model.fleet import NodeSpec, Placing
from warehouse.model.time import MS_PER_DAY

# (slot in words, day of January, GPU; blank is empty, and day 0 is the commissioning)
Fact = tuple[str, float, str]


def day(number: float) -> int:
    """Gives the millisecond so many days after the fleet's start."""
    return START + round(number * MS_PER_DAY)


def with_nodes(url: str, retired_ms: int | None = None) -> Engine:
    """Gives a ledger with n1 and n2 of two GPUs, and a spare node of one; all H100, none of them named."""
    engine = open_engine(url)
    nodes = [NodeSpec("s", "h", "r", name, 2, "H100", START, retired_ms) for name in ("n1", "n2")]
    nodes.append(NodeSpec("s", "h", "r", "spare", 1, "H100", START, retired_ms))
    pipeline.load_fleet(engine, nodes, act("fleet"))
    return engine


def placing(slot: str, at: float, uuid: str, **more: str) -> Placing:
    node, index = slot.split("/")
    return Placing(node, int(index), day(at), uuid or None, where=f"gpus.csv {slot} {at:g}", **more)


def place(engine: Engine, *facts: Fact | Placing, revise: bool = False, now_ms: int = NOW) -> Installed:
    """Loads facts as one file."""
    rows = [fact if isinstance(fact, Placing) else placing(*fact) for fact in facts]
    return install(engine, rows, act("fleet", now_ms), revise=revise)


def tenure(engine: Engine) -> list[tuple[object, ...]]:
    """Gives (slot, first day, last day or None, GPU, model) of the standing tenure, without row numbers."""
    with engine.connect() as connection:
        rows = connection.execute(
            text(
                "select t.slot, ms_of(lower(t.during)) as start_ms, case when upper_inf(t.during) then null "
                "else ms_of(upper(t.during)) end as end_ms, t.gpu_id is null as empty, coalesce(g.uuid, g.serial) as "
                "name, g.model from tenure t left join gpu g on g.id = t.gpu_id where upper_inf(t.revs) "
                "order by t.slot, t.during"
            )
        )
        return [(r.slot, _days(r.start_ms), _days(r.end_ms), "" if r.empty else r.name, r.model) for r in rows]


def _days(at_ms: int | None) -> float | None:
    return None if at_ms is None else (at_ms - START) / MS_PER_DAY
