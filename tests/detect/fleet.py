"""A fleet of scraped nodes that can be made to fail, and the slots that they own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.detect.server import Signals
from warehouse.model.slots import SlotRanges
from warehouse.model.time import Window

SCRAPE_MS = 15_000

Truth = Callable[[int], bool]


def never(_: int) -> bool:
    """Nothing fails."""
    return False


def between(start_ms: int, end_ms: int) -> Truth:
    """Something fails over [start, end)."""
    return lambda at_ms: start_ms <= at_ms < end_ms


@dataclass(frozen=True)
class Fleet:
    """Nodes with the same number of GPUs in slots that follow each other: the resolver of these tests."""

    nodes: tuple[str, ...]
    gpus: int = 8
    rack: str = ""

    def node(self, name: str) -> SlotRanges | None:
        """Gives the slots of a node."""
        if name not in self.nodes:
            return None
        first = self.nodes.index(name) * self.gpus
        return ((first, first + self.gpus),)

    def gpu(self, node: str, position: int) -> SlotRanges | None:
        """Gives one slot of a node."""
        slots = self.node(node)
        if slots is None or not 0 <= position < self.gpus:
            return None
        return ((slots[0][0] + position, slots[0][0] + position + 1),)

    def position(self, node: str, uuid: str) -> int | None:
        """Knows no UUIDs: places go by address."""
        return None

    def domains(self, node: str) -> tuple[str, ...]:
        """Puts all nodes into one rack, where it has one."""
        return (f"rack {self.rack}",) if self.rack and node in self.nodes else ()

    def size(self, domain: str) -> int:
        """Gives the nodes of the rack."""
        return len(self.nodes)


def address_of(position: int) -> str:
    """Gives the PCI address of the GPU at a position; the order of addresses is the order of positions."""
    return f"0000:{0x1A + 0x11 * position:02x}:00"


def scrape(
    signals: Signals,
    node: str,
    window: Window,
    phase_ms: int,
    *,
    gpus: int = 8,
    exporter_dead: Truth = never,
    node_dead: Truth = never,
    unwatched: Truth = never,
    gpu_down: Mapping[int, tuple[str, Truth]] | None = None,
    witness: bool = True,
) -> None:
    """Adds what a Prometheus would have scraped from a node's two exporters.

    The exporter is scraped `phase_ms` after each multiple of the interval, node_exporter 4 s later, as in life.
    """
    for tick in range(window.start_ms // SCRAPE_MS, window.end_ms // SCRAPE_MS):
        at_ms = tick * SCRAPE_MS + phase_ms
        other_ms = at_ms + 4_000
        if witness and not unwatched(other_ms):
            signals.put("up", other_ms, 0.0 if node_dead(other_ms) else 1.0, job="node", node=node)
        if unwatched(at_ms):
            continue
        silent = exporter_dead(at_ms) or node_dead(at_ms)
        signals.put("up", at_ms, 0.0 if silent else 1.0, job="gpu-minutes", node=node)
        if not silent:
            _gpus(signals, node, at_ms, gpus, gpu_down or {})


def _gpus(signals: Signals, node: str, at_ms: int, gpus: int, gpu_down: Mapping[int, tuple[str, Truth]]) -> None:
    for position in range(gpus):
        labels = {"job": "gpu-minutes", "node": node, "slot": address_of(position)}
        labels["uuid"] = f"GPU-{node}-{position}"
        reason, down = gpu_down.get(position, ("", never))
        signals.put("gpuminutes_gpu_up", at_ms, 0.0 if down(at_ms) else 1.0, **labels)
        if down(at_ms):
            signals.put("gpuminutes_gpu_down_reason", at_ms, 1.0, reason=reason, **labels)


def train(
    signals: Signals, nodes: tuple[str, ...], window: Window, phase_ms: int, job: str, hung: Truth, gpus: int
) -> None:
    """Adds a job on all GPUs of the nodes: busy throughout, near idle power while it hangs.

    The last GPU sits in a kernel of its own during the hang and draws full power. Call it after `scrape`: a
    node's readings are there only in the intervals in which its exporter answered.
    """
    answered = {
        (node, at_ms // SCRAPE_MS)
        for node in nodes
        for at_ms, value in signals.points("up", job="gpu-minutes", node=node)
        if value == 1
    }
    for tick in range(window.start_ms // SCRAPE_MS, window.end_ms // SCRAPE_MS):
        at_ms = tick * SCRAPE_MS + phase_ms
        for node in (node for node in nodes if (node, tick) in answered):
            for position in range(gpus):
                labels = {"job": "gpu-minutes", "node": node, "slot": address_of(position)}
                labels["uuid"] = f"GPU-{node}-{position}"
                spinning = node == nodes[-1] and position == gpus - 1
                power = 160.0 if hung(at_ms) and not spinning else 620.0
                signals.put("gpuminutes_gpu_utilization_ratio", at_ms, 1.0, **labels)
                signals.put("gpuminutes_gpu_power_watts", at_ms, power, **labels)
                signals.put("gpuminutes_gpu_power_limit_watts", at_ms, 700.0, kind="enforced", **labels)
                info = {"kind": "slurm", "job_id": job, **labels}
                signals.put("gpuminutes_gpu_workload_info", at_ms, 1.0, **info)
