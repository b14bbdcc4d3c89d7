"""A session that ends at any statement of any act: nothing is half booked, and a rerun heals."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Engine, create_engine
from sqlalchemy.exc import DBAPIError

from tests.conftest import _fresh_database
from tests.faults.acts import Failing, digest, holds, snapshot
from tests.store.ledgers import NOW, act, at, held, said, take_in, tiling, with_fleet
from warehouse import pipeline
from warehouse.model.fleet import NodeSpec
from warehouse.model.state import State

FIRST = (
    said("1", State.DOWN, 1, 30, "a1", cause="host/dram"), said("2", State.HUNG, 5, 9, "rack:rack-b"),
    held("j", 0, 40, "a1+a2"),
)  # fmt: skip
LATER = (
    said("3", State.DOWN, 29, 35, "a1", cause="host/dram"), said("4", State.DEGRADED, 2, 90, "b1", lost_ppm=250_000),
    held("k", 10, 60, "b1"),
)  # fmt: skip
MORE_NODES = [NodeSpec("s", "h", "rack-c", "c1", 4, "H100", at(24), None)]

ACTS: dict[str, Callable[[Engine], object]] = {
    "import and book": lambda engine: take_in(engine, *LATER),
    "import without booking": lambda engine: take_in(engine, *LATER, book=False),
    "fleet": lambda engine: pipeline.load_fleet(engine, MORE_NODES, act("fleet")),
    "book further": lambda engine: pipeline.book(engine, act("derive"), until_ms=NOW),
}


def begun(url: str) -> Engine:
    engine = with_fleet(url)
    take_in(engine, *FIRST)
    return engine


@pytest.fixture
def urls(debian_server: str) -> Iterator[tuple[str, str]]:
    yield _fresh_database(debian_server), _fresh_database(debian_server)


@pytest.mark.parametrize("what", ACTS)
def test_ended_at_every_statement(urls: tuple[str, str], what: str) -> None:
    harmed, quiet = urls
    undisturbed = begun(quiet)
    ACTS[what](undisturbed)
    engine = begun(harmed)
    before = snapshot(engine)
    failing = Failing(harmed)
    number = 0
    while True:
        number += 1
        try:
            reached = failing.run(ACTS[what], at=number)
        except DBAPIError as exc:
            assert "terminat" in str(exc) or "closed" in str(exc) or "lost" in str(exc), exc
            assert snapshot(engine) == before, f"statement {number} left something"
        else:
            # Past its last statement nothing was in the way.
            assert reached < number
            break
    assert number > 10
    failing.close()
    assert digest(tiling(engine)) == digest(tiling(undisturbed))
    assert snapshot(engine).keys() == snapshot(undisturbed).keys()
    holds(engine)
    again = create_engine(engine.url)
    assert not ACTS[what](again).changed  # type: ignore[attr-defined]
    for opened in (again, engine, undisturbed):
        opened.dispose()
