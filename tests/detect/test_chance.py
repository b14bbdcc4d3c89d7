"""Days drawn by chance: whatever fails and however time is cut, the evidence is the same."""

from __future__ import annotations

import random
from pathlib import Path

from tests.detect.fleet import Fleet, Truth, never, scrape, train
from tests.detect.server import Server, Signals
from tests.detect.test_observe import look, look_in_pieces
from warehouse.evidence.prometheus import PrometheusClient
from warehouse.model.time import MS_PER_DAY, MS_PER_MINUTE, Window, parse_instant

FLEET = Fleet(("a", "b", "c"), gpus=2)
SEED = 20_260_101
DAYS = 8
CUTS_PER_DAY = 3


def faults(chance: random.Random, window: Window, most: int, low_ms: int, high_ms: int) -> Truth:
    """Gives up to `most` faults of chance onset and length; they may overlap and outlast the window."""
    spans = []
    for _ in range(chance.randint(0, most)):
        start_ms = chance.randrange(window.start_ms, window.end_ms)
        spans.append((start_ms, start_ms + chance.randrange(low_ms, high_ms)))
    return lambda at_ms: any(start_ms <= at_ms < end_ms for start_ms, end_ms in spans)


def either(left: Truth, right: Truth) -> Truth:
    """Holds where one of both does."""
    return lambda at_ms: left(at_ms) or right(at_ms)


def draw_day(chance: random.Random, signals: Signals, start_ms: int) -> Window:
    """Adds half an hour to an hour of three nodes and a job, with everything that can go wrong."""
    window = Window(start_ms, start_ms + 30 * MS_PER_MINUTE + chance.randrange(30 * MS_PER_MINUTE))
    stopped = faults(chance, window, 2, 5_000, 900_000)
    for node in FLEET.nodes:
        alone = faults(chance, window, 1, 30_000, 200_000)
        reasons = [chance.choice(["lost", "timeout", "driver"]) for _ in range(FLEET.gpus)]
        scrape(
            signals,
            node,
            window,
            chance.choice([0, 3_000, 3_000, 8_765]),
            gpus=FLEET.gpus,
            exporter_dead=faults(chance, window, 2, 5_000, 900_000),
            node_dead=faults(chance, window, 2, 5_000, 900_000),
            unwatched=either(stopped, alone) if chance.random() < 0.7 else never,
            gpu_down={index: (text, faults(chance, window, 2, 5_000, 900_000)) for index, text in enumerate(reasons)},
            witness=chance.random() < 0.9,
        )
    train(signals, ("a", "b"), window, 2_000, "j", faults(chance, window, 2, 100_000, 1_500_000), FLEET.gpus)
    return window


def test_chance_faults_and_chance_cuts(tmp_path: Path, any_server: Server) -> None:
    chance = random.Random(SEED)
    signals = Signals()
    first_ms = parse_instant("2026-01-01T06:00:00Z")
    days = [draw_day(chance, signals, first_ms + day * 2 * MS_PER_DAY) for day in range(DAYS)]
    with any_server(tmp_path, signals) as address, PrometheusClient(address, timeout_s=30) as client:
        for window in days:
            whole = look(client, window, FLEET)
            for _ in range(CUTS_PER_DAY):
                cuts = chance.sample(range(window.start_ms + 1, window.end_ms), chance.randint(1, 5))
                assert look_in_pieces(client, window, FLEET, cuts) == whole.evidence, (SEED, window, cuts)
