"""The cases, each an hour of a day of its own: what was true, and from it what a Prometheus scraped."""

from __future__ import annotations

from tests.detect.fleet import Fleet, between, scrape, train
from tests.detect.server import Signals
from warehouse.model.time import Window, parse_instant


def at(text: str) -> int:
    """Gives a time in March 2026, written like `04T10:20:03`, in milliseconds."""
    return parse_instant(f"2026-03-{text}Z")


NODES = Window(at("02T10:00:00"), at("02T11:00:00"))
NODES_FLEET = Fleet(("n1", "n2", "n3"))

GPUS = Window(at("04T10:00:00"), at("04T11:00:00"))
GPUS_FLEET = Fleet(("g1", "g2"))

HANG = Window(at("06T10:00:00"), at("06T11:00:00"))
HANG_FLEET = Fleet(("h1", "h2", "h3"), gpus=2)

GAP = Window(at("08T10:00:00"), at("08T11:00:00"))
GAP_FLEET = Fleet(("p1", "p2", "p3", "p4", "p5", "p6"), gpus=2)

LONG = Window(at("10T06:00:00"), at("10T14:00:00"))
LONG_FLEET = Fleet(("l1",), gpus=1)


def all_signals() -> Signals:
    """Gives the samples of every case."""
    signals = Signals()
    _nodes(signals)
    _gpus(signals)
    _hang(signals)
    _gap(signals)
    for tick in range(60):
        signals.put("up", GPUS.start_ms + tick * 15_000, 0.0, job="gpu-minutes", instance="10.0.0.9:9400")
    scrape(signals, "l1", LONG, 3_000, gpus=1, node_dead=between(at("10T07:30:00"), at("10T13:10:00")))
    return signals


def _nodes(signals: Signals) -> None:
    """n1 is gone for four minutes; n2 loses one scrape, later its exporter; n3 has no second witness."""
    scrape(signals, "n1", NODES, 3_000, node_dead=between(at("02T10:20:00"), at("02T10:24:00")))
    blip = between(at("02T10:10:00"), at("02T10:10:15"))
    dead = between(at("02T10:40:00"), at("02T10:43:00"))
    scrape(signals, "n2", NODES, 7_000, exporter_dead=lambda at_ms: blip(at_ms) or dead(at_ms))
    alone = between(at("02T10:30:00"), at("02T10:35:00"))
    scrape(signals, "n3", NODES, 1_000, exporter_dead=alone, witness=False)


def _gpus(signals: Signals) -> None:
    """g1 loses GPU 5, and its GPU 2 gives no answer for a while; g2 names seven GPUs of eight; g9 is a stranger."""
    lost = ("lost", between(at("04T10:20:00"), at("04T10:31:00")))
    silent = ("timeout", between(at("04T10:40:00"), at("04T10:44:00")))
    scrape(signals, "g1", GPUS, 5_000, gpu_down={5: lost, 2: silent})
    unplaced = {3: ("lost", between(at("04T10:20:00"), at("04T10:30:00")))}
    scrape(signals, "g2", GPUS, 6_000, gpus=7, gpu_down=unplaced)
    scrape(signals, "g9", GPUS, 6_500, node_dead=between(at("04T10:50:00"), at("04T10:55:00")))


def _hang(signals: Signals) -> None:
    """Job 4711 on h1 and h2 hangs for twelve minutes, job 12 on h3 for three: too short to be told from a save."""
    for node in HANG_FLEET.nodes:
        scrape(signals, node, HANG, 2_000, gpus=2)
    hung = between(at("06T10:20:00"), at("06T10:32:00"))
    train(signals, ("h1", "h2"), HANG, 2_000, "4711", hung, gpus=2)
    saving = between(at("06T10:40:00"), at("06T10:43:00"))
    train(signals, ("h3",), HANG, 2_000, "12", saving, gpus=2)


def _gap(signals: Signals) -> None:
    """Prometheus is stopped for 77 s while p3 is down; p1 and p2 are scraped at the same instants.

    Later p4 and p5 fall silent at one instant and come back five minutes apart, and p6 leaves for good.
    """
    stopped = between(at("08T10:20:10"), at("08T10:21:27"))
    scrape(signals, "p1", GAP, 3_000, gpus=2, unwatched=stopped)
    scrape(signals, "p2", GAP, 3_000, gpus=2, unwatched=stopped)
    down = between(at("08T10:15:00"), at("08T10:25:00"))
    scrape(signals, "p3", GAP, 8_000, gpus=2, unwatched=stopped, node_dead=down)
    scrape(signals, "p4", GAP, 3_000, gpus=2, unwatched=between(at("08T10:40:00"), at("08T10:45:00")))
    scrape(signals, "p5", GAP, 3_000, gpus=2, unwatched=between(at("08T10:40:00"), at("08T10:50:00")))
    scrape(signals, "p6", GAP, 3_000, gpus=2, unwatched=between(at("08T10:52:00"), at("08T11:00:00")))
