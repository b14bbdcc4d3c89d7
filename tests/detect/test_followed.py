"""What is followed minute by minute says what one look over everything says: where a look alone sees only a part."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.looks import canonical, cut, look
from tests.detect.fleet import SCRAPE_MS, Fleet
from tests.detect.server import Server, Signals
from warehouse.detect.site import Site
from warehouse.detect.stitch import detector_of
from warehouse.detect.words import Settings
from warehouse.evidence.prometheus import PrometheusClient
from warehouse.model.cause import Detector
from warehouse.model.evidence import Evidence
from warehouse.model.state import State
from warehouse.model.time import MS_PER_MINUTE, MS_PER_SECOND, Window, parse_instant

FLEET = Fleet(("n1",), gpus=2)
START_MS = parse_instant("2026-03-14T09:30:00Z")
ASKED = Window(START_MS + 10 * MS_PER_MINUTE, START_MS + 60 * MS_PER_MINUTE)

HALF_LOST = Detector(
    key="half_lost",
    version=1,
    expr="node_load1 > 10",
    lost_expr="clamp(node_load1 / 100, 0, 1)",
    scope="node",
    state=State.DEGRADED,
    min_duration_ms=60_000,
    why="The load says how much is lost.",
)
BOOTED = Detector(
    key="booted",
    version=1,
    expr="node_boot_time_seconds > time() - 900",
    scope="node",
    state=State.DOWN,
    min_duration_ms=0,
    dated_by_value=True,
    momentary=True,
    stitch_ms=900_000,
    why="The kernel began anew.",
)


def followed(
    server: Server, folder: Path, detector: Detector, name: str, value: Callable[[int], float]
) -> list[Evidence]:
    """Gives what a detector tells of one series of a node, followed by minutes, which must be what one look tells.

    Args:
        server: which kind.
        folder: of it.
        detector: the site's own.
        name: of the series.
        value: by the minute after the start.
    """
    signals = Signals()
    for tick in range(ASKED.end_ms // SCRAPE_MS - START_MS // SCRAPE_MS):
        at_ms = START_MS + tick * SCRAPE_MS + 2_000
        signals.put("up", at_ms, 1.0, job="gpu-minutes", node="n1")
        signals.put(name, at_ms, value((at_ms - START_MS) // MS_PER_MINUTE), node="n1", job="node")
    settings = Settings(site=Site(custom=(("unknown/unattributed", detector),)))
    with server(folder, signals) as address, PrometheusClient(address, timeout_s=30) as client:
        live = look(cut(ASKED, MS_PER_MINUTE), client, FLEET, settings).evidence
        once = look([ASKED], client, FLEET, settings).evidence
    assert canonical(live) == canonical(once)
    # Others of the catalogue may read the same series.
    return [item for item in once if detector_of(item) == detector.key]


def test_the_lost_part_is_that_of_the_whole_episode(any_server: Server, tmp_path: Path) -> None:
    """20 from minute 12, 80 from minute 20: to the full hour, at minute 30, that is 53 in the mean."""
    loads = {minute: 20.0 if minute < 20 else 80.0 for minute in range(12, 60)}
    (item,) = followed(any_server, tmp_path, HALF_LOST, "node_load1", lambda minute: loads.get(minute, 1.0))
    assert item.end_ms is None and item.lost_ppm is not None
    # 32 readings of 20 and 40 of 80; the first step after the onset carries the last reading before it.
    assert abs(item.lost_ppm - 533_000) < 10_000


def test_a_second_event_within_the_stitch_of_the_first_is_a_second_event(any_server: Server, tmp_path: Path) -> None:
    first_s, second_s = ((START_MS + minute * MS_PER_MINUTE) // MS_PER_SECOND for minute in (15, 22))

    def booted(minute: int) -> float:
        return first_s - 90_000.0 if minute < 16 else first_s if minute < 23 else second_s

    told = followed(any_server, tmp_path, BOOTED, "node_boot_time_seconds", booted)
    assert [item.start_ms // MS_PER_SECOND for item in told] == [first_s, second_s]
