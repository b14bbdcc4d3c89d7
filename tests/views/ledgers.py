"""Two sites in two zones and currencies, and a tiling written as rectangles: what a sweep would have made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, Engine, text

from tests.store.ledgers import act, open_engine
from warehouse import pipeline, views
from warehouse.model.entry import Entry, Payload
from warehouse.model.evidence import Allocation, Evidence
from warehouse.model.fleet import NodeSpec
from warehouse.model.rate import RateSpec
from warehouse.model.state import State, default_lost_ppm
from warehouse.model.time import MS_PER_HOUR, parse_instant, to_datetime
from warehouse.store import entries, evidence, fleet, revisions
from warehouse.store.revisions import Revision
from warehouse.store.rows import revisions_from, span

START = parse_instant("2026-01-01")
NEW_YORK, BERLIN = "America/New_York", "Europe/Berlin"


def two_sites(url: str) -> Engine:
    """One node of two GPUs in New York (slots 0 and 1), one in Berlin (8 and 9)."""
    engine = open_engine(url)
    nodes = [
        NodeSpec("nyc", "h1", "r1", "n1", 2, "H100", START, timezone=NEW_YORK, currency="USD"),
        NodeSpec("ber", "h1", "r1", "b1", 2, "H100", START, timezone=BERLIN, currency="EUR"),
    ]
    # One act a site: slots are given in order of names, and New York shall have the first.
    for node in nodes:
        pipeline.load_fleet(engine, [node], act("fleet"))
    return engine


def add_rates(engine: Engine, *rates: RateSpec) -> None:
    """Stores rates since revision 1."""
    with engine.begin() as connection:
        for rate in rates:
            named = {"card": rate.card, "model": rate.model, "cur": rate.currency, "contract": rate.contract}
            line = connection.execute(
                text(
                    "insert into rate_line (card, model, currency, contract, revs) "
                    "values (:card, :model, :cur, :contract, int8range(1, null)) returning id"
                ),
                named,
            ).scalar_one()
            connection.execute(
                text(
                    "insert into rate (line_id, per_gpu_hour, effective, revs) values (:l, :p, :e, int8range(1, null))"
                ),
                {"l": line, "p": rate.per_gpu_hour, "e": span(rate.start_ms, rate.end_ms)},
            )


def both_currencies(engine: Engine) -> None:
    """A card of 2 USD in New York and 3 EUR in Berlin for a GPU-hour."""
    add_rates(
        engine,
        RateSpec("list", "H100", "USD", Decimal(2), START),
        RateSpec("list", "H100", "EUR", Decimal(3), START),
    )


def tile(slots: tuple[int, int], start: float, end: float, state: State, since: int = START, **said: Any) -> Entry:
    """An entry over hours since `since`; what is not said is as evidence would have it."""
    idle = {"cause": None, "incident_id": None, "evidence_id": None, "attempt_id": None, "basis": "measured"}
    words = {"lost_ppm": default_lost_ppm(state), "rule": "claim"} | idle | said
    if state is State.UNKNOWN:
        words |= {"basis": "none", "rule": said.get("rule", "silence")}
    return Entry(*slots, since + round(start * MS_PER_HOUR), since + round(end * MS_PER_HOUR), Payload(state, **words))


def write(engine: Engine, tiling: Sequence[Entry]) -> int:
    """Puts a whole tiling in the place of the one that stands; gives its revision."""
    with engine.begin() as connection:
        before = revisions.latest(connection)
        assert before is not None
        rev = before.rev + 1
        standing = list(connection.execute(text("select id from ledger_head")).scalars())
        entries.change(connection, standing, tiling, rev)
        horizon = max(entry.end_ms for entry in tiling)
        head = Revision(rev, to_datetime(horizon), "derive", "tester", "test", horizon, b"", "test", b"")
        revisions.add(connection, head, {}, tiling)
    return rev


def note(engine: Engine, *said: Evidence | Allocation) -> list[int]:
    """Stores evidence and allocations without booking them; gives their ids."""
    ids: list[int] = []
    with engine.begin() as connection:
        for item in said:
            if isinstance(item, Evidence):
                ids += evidence.write(connection, [item], 1).values()
            else:
                evidence.write_allocations(connection, [item], [], 1)
                ids.append(connection.execute(text("select max(id) from allocation")).scalar_one())
    return ids


def incident(engine: Engine, number: int, cause: str, evidence_ids: Sequence[int]) -> None:
    """Stores an incident with its evidence and charged cause."""
    with engine.begin() as connection:
        connection.execute(text("insert into incident (id) overriding system value values (:i)"), {"i": number})
        connection.execute(
            text(
                "insert into incident_cause (incident_id, cause, is_symptom, role, set_by, reason, revs) "
                "values (:i, :c, false, 'charged', 'test', 'test', :r)"
            ),
            {"i": number, "c": cause, "r": revisions_from(1)},
        )
        for evidence_id in evidence_ids:
            connection.execute(
                text("insert into incident_evidence (incident_id, evidence_id, revs) values (:i, :e, :r)"),
                {"i": number, "e": evidence_id, "r": revisions_from(1)},
            )


def share(job: str, share_ppm: int | None, slots: tuple[int, int], start: int = START) -> Allocation:
    """An allocation of a part of GPUs, of the tenant that its job is named after."""
    tenant = "team-" + job[0]
    return Allocation(job, 1, tenant, "training", start, None, "x", (slots,), share_ppm=share_ppm)


def ask(connection: Connection, start: int | None = None, end: int | None = None, **more: Any) -> views.Question:
    """The question at the newest revision."""
    revision = revisions.latest(connection, more.pop("as_of", None))
    assert revision is not None
    return views.ask(connection, revision, start, end, **more)


def goodput(engine: Engine, by: str = "state", start: int | None = None, end: int | None = None, **more: Any) -> Any:
    """The answer as JSON gives it."""
    with engine.connect() as connection:
        return json.loads(json.dumps(views.goodput(connection, ask(connection, start, end, **more), by)))


def rows(answer: Any) -> dict[str, Any]:
    """The rows by key."""
    return {row["key"]: row for row in answer["rows"]}


def installed_until(engine: Engine, end_ms: int) -> list[tuple[int, int]]:
    """The slots that hold GPUs, as ranges."""
    with engine.connect() as connection:
        return [part for block in fleet.tenure_blocks(connection, 2) for part in block.slots]
