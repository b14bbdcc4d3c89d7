"""Backfill is live: a fleet that was followed minute by minute says, byte by byte, what one run over all of it says.

The fleet, its troubles and the looks are those of `benchmarks.detect`; the worker's own windows are drawn from its
database.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, create_engine

from benchmarks.detect import BEFORE_MS, START_MS, families, fill, prometheus, script
from benchmarks.looks import as_the_worker_does, canonical, cut, digest, look
from benchmarks.replay import Farm, Replay
from benchmarks.troubles import KINDS, Trouble, drawn
from warehouse import worker
from warehouse.detect.words import SOURCE, Settings
from warehouse.evidence.prometheus import PrometheusClient
from warehouse.model.time import MS_PER_DAY, MS_PER_MINUTE, Window
from warehouse.store import migrate, progress

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SETTINGS = Settings()
ASKED = Window(START_MS + BEFORE_MS, START_MS + BEFORE_MS + 90 * MS_PER_MINUTE)
SEED = 20_260_505
# Two halls of six nodes, so that a hall can fall.
PLACE = Farm(tuple(f"n{number:02}" for number in range(12)), 6, (4, 3, 1), 1)


def troubles() -> list[Trouble]:
    """Gives the script of the benchmark, a hall that falls on both sides of a full minute, and chance on top."""
    edge_ms = ASKED.start_ms + 70 * MS_PER_MINUTE
    hall = Trouble("node_dead", Window(edge_ms - 7_000, edge_ms + 6 * MS_PER_MINUTE), frozenset(PLACE.nodes[6:]))
    chance = random.Random(SEED)
    return [
        *script(PLACE),
        hall,
        *drawn(chance, len(KINDS), ASKED, PLACE.nodes, PLACE.job_nodes, list(PLACE.endpoints)),
    ]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusClient]:
    """A client of a Prometheus into which ninety minutes of twelve nodes were replayed."""
    window = Window(START_MS, ASKED.end_ms + MS_PER_MINUTE)
    with prometheus(tmp_path_factory.mktemp("backfill")) as (address, _):
        fill(address, Replay(PLACE, window, troubles(), families()))
        with PrometheusClient(address, timeout_s=60) as found:
            yield found


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """A ledger that has seen nothing yet."""
    found = create_engine(database_url.replace("postgresql:", "postgresql+psycopg:"))
    migrate.upgrade(found)
    yield found
    found.dispose()


def windows_of_the_worker(engine: Engine) -> list[Window]:
    """Gives the windows that the worker takes when it begins after all of it is over."""
    found = []
    now_ms = ASKED.end_ms + worker.LAG_SCRAPES * SETTINGS.scrape_interval_ms
    while (window := worker.next_window(engine, SETTINGS, now_ms, ASKED.start_ms)) is not None:
        found.append(window)
        with engine.begin() as connection:
            progress.advance(connection, SOURCE, window.end_ms)
    return found


def test_minutes_and_hours_and_one_run_give_the_same_bytes(client: PrometheusClient, engine: Engine) -> None:
    """Live as the worker is: the urgent detectors every minute, every detector every five."""
    live = look(as_the_worker_does(ASKED, MS_PER_MINUTE, 5 * MS_PER_MINUTE), client, PLACE, SETTINGS)
    late = windows_of_the_worker(engine)
    assert (late[0].start_ms, late[-1].end_ms) == (ASKED.start_ms, ASKED.end_ms) and len(late) == 2
    hours = look(late, client, PLACE, SETTINGS)
    once = look(cut(ASKED, MS_PER_DAY), client, PLACE, SETTINGS)
    assert len({item.cause for item in live.evidence}) > 3 and len(live.evidence) > 10
    assert canonical(live.evidence) == canonical(once.evidence)
    assert canonical(hours.evidence) == canonical(once.evidence)
    assert digest(live.evidence) == digest(hours.evidence) == digest(once.evidence)
    again = look(late, client, PLACE, SETTINGS, known=live.evidence)
    assert canonical(again.evidence) == canonical(once.evidence)
