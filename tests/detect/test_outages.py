"""When the watchers fail: unknown over exactly the hole, and never a word of what was not seen.

A small fleet of `benchmarks.replay` with every family that a detector reads: none may take silence for a fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.detect import BEFORE_MS, START_MS, families, fill, prometheus
from benchmarks.looks import canonical, cut, look
from benchmarks.pages import SCRAPE_MS
from benchmarks.replay import VARIANTS, Farm, Replay
from benchmarks.troubles import Trouble
from warehouse.detect.observe import observe
from warehouse.detect.words import Settings
from warehouse.evidence.prometheus import PrometheusClient, PrometheusError
from warehouse.model.evidence import Evidence
from warehouse.model.state import State
from warehouse.model.time import MS_PER_MINUTE, Window

pytestmark = pytest.mark.slow

PLACE = Farm(("n0", "n1", "n2", "n3"), 4, (2, 1), 1)
ASKED = Window(START_MS + BEFORE_MS, START_MS + BEFORE_MS + 30 * MS_PER_MINUTE)
SETTINGS = Settings()
# No multiple of a scrape, and it begins and ends between scrapes.
STOPPED = Window(ASKED.start_ms + 10 * MS_PER_MINUTE + 7_400, ASKED.start_ms + 10 * MS_PER_MINUTE + 84_400)


@contextmanager
def replayed(folder: Path, *troubles: Trouble) -> Iterator[str]:
    """Gives the address of a Prometheus into which the fleet was replayed with some troubles."""
    window = Window(START_MS, ASKED.end_ms + MS_PER_MINUTE)
    with prometheus(folder) as (address, _):
        fill(address, Replay(PLACE, window, troubles, families()))
        yield address


def followed_and_at_once(address: str) -> list[Evidence]:
    """Gives the evidence of the half hour, followed minute by minute, which must be that of one run."""
    with PrometheusClient(address, timeout_s=30) as client:
        live = look(cut(ASKED, MS_PER_MINUTE), client, PLACE, SETTINGS)
        once = look([ASKED], client, PLACE, SETTINGS)
    assert canonical(live.evidence) == canonical(once.evidence)
    return live.evidence


def first_scrape(node: str, at_ms: int) -> int:
    """Gives the first scrape of a node's exporter from an instant on."""
    phase_ms = PLACE.numbers[node] % VARIANTS * SCRAPE_MS // VARIANTS
    return -(-(at_ms - phase_ms) // SCRAPE_MS) * SCRAPE_MS + phase_ms


def scrapes_around(node: str, window: Window) -> tuple[int, int]:
    """Gives the last scrape of a node's exporter before a stretch, and the first after it."""
    return first_scrape(node, window.start_ms) - SCRAPE_MS, first_scrape(node, window.end_ms)


def spans(evidence: list[Evidence]) -> list[tuple[str, str, State, int, int | None]]:
    """Gives what is told: the scope, the detector, the state, from when to when."""
    return sorted((e.scope, e.key.split("@")[0].removeprefix("det:"), e.state, e.start_ms, e.end_ms) for e in evidence)


def test_a_stopped_prometheus_is_unknown_from_each_last_scrape_to_each_first(tmp_path: Path) -> None:
    with replayed(tmp_path, Trouble("prometheus_stopped", STOPPED, frozenset(PLACE.nodes))) as address:
        found = spans(followed_and_at_once(address))
    assert found == [
        (node, "no_samples", State.UNKNOWN, *scrapes_around(node, STOPPED)) for node in sorted(PLACE.nodes)
    ]
    # Of a scrape every 15 s, 77 s take five or six.
    assert {end_ms - start_ms for *_, start_ms, end_ms in found if end_ms is not None} == {90_000, 105_000}


def test_a_dead_exporter_on_a_live_node_is_unknown_and_a_dead_node_exporter_is_nothing(tmp_path: Path) -> None:
    first = Window(ASKED.start_ms + 5 * MS_PER_MINUTE, ASKED.start_ms + 12 * MS_PER_MINUTE)
    second = Window(ASKED.start_ms + 15 * MS_PER_MINUTE, ASKED.start_ms + 25 * MS_PER_MINUTE)
    dead = [
        Trouble("exporter_dead", first, frozenset({"n1"})),
        Trouble("host_exporter_dead", second, frozenset({"n0"})),
    ]
    with replayed(tmp_path, *dead) as address:
        found = spans(followed_and_at_once(address))
    # The first scrape that failed, and the first that did not.
    failed_ms, answered_ms = first_scrape("n1", first.start_ms), first_scrape("n1", first.end_ms)
    assert found == [("n1", "exporter_silent", State.UNKNOWN, failed_ms, answered_ms)]


def test_a_restart_between_two_looks_loses_nothing(tmp_path: Path) -> None:
    """While it is away a look fails whole; afterwards the same window is looked at, and the rest is as ever."""
    stopped = Trouble("prometheus_stopped", STOPPED, frozenset(PLACE.nodes))
    lost = Window(ASKED.start_ms + 8 * MS_PER_MINUTE, ASKED.start_ms + 20 * MS_PER_MINUTE)
    gone = Trouble("node_dead", lost, frozenset({"n3"}))
    store: dict[str, Evidence] = {}

    def follow(address: str, windows: list[Window]) -> None:
        with PrometheusClient(address, timeout_s=30) as client:
            for window in windows:
                reaching = [item for item in store.values() if item.end_ms is None or item.end_ms > window.start_ms]
                seen = observe(window, client, PLACE, reaching, SETTINGS)
                store.update({item.key: item for item in seen.evidence})

    minutes = list(cut(ASKED, MS_PER_MINUTE))
    with replayed(tmp_path, stopped, gone) as address:
        follow(address, minutes[:11])
    before = dict(store)
    with pytest.raises(PrometheusError):
        follow(address, minutes[11:])
    assert store == before
    with prometheus(tmp_path) as (address, _), PrometheusClient(address, timeout_s=30) as client:
        follow(address, minutes[11:])
        once = look([ASKED], client, PLACE, SETTINGS)
    assert canonical(list(store.values())) == canonical(once.evidence)
    # node_exporter is scraped 4 s later, and the second witness proves the outage.
    proven_ms, answered_ms = first_scrape("n3", lost.start_ms) + 4_000, first_scrape("n3", lost.end_ms)
    last_ms, first_ms = scrapes_around("n3", STOPPED)
    assert [found[1:] for found in spans(once.evidence) if found[0] == "n3"] == [
        ("no_samples", State.UNKNOWN, last_ms, first_ms),
        ("node_rebooted", State.DOWN, lost.end_ms - MS_PER_MINUTE, lost.end_ms - MS_PER_MINUTE),
        ("node_unreachable", State.DOWN, proven_ms, last_ms),
        ("node_unreachable", State.DOWN, first_ms, answered_ms),
    ]
