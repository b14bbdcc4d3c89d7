"""Puts what series name (nodes, PCI addresses, jobs) into the slots of the fleet, or says why it cannot."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from warehouse.detect.words import SOURCE, Finding, Resolver
from warehouse.evidence.prometheus import PrometheusClient
from warehouse.model.slots import SlotRanges, count, normalise
from warehouse.model.time import Window

# Node names in one matcher: a request of some ten kilobytes at most.
_NODES_PER_QUERY = 200


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is: the scope in words, and its slots."""

    scope: str
    slots: SlotRanges


def one_of(label: str, values: Iterable[str]) -> str:
    """Gives a PromQL matcher for any of the values, taken literally."""
    pattern = "|".join(re.escape(value) for value in sorted(set(values)))
    escaped = pattern.replace("\\", "\\\\").replace('"', '\\"')
    return f'{label}=~"{escaped}"'


@dataclass(slots=True)
class Placer:
    """Places hits of one window; remembers the PCI addresses that it has asked for.

    The position of a GPU in its node is the rank of its PCI address among all addresses that the node's exporter
    named in the window. Where that count is not the node's number of slots, no GPU of it can be placed.
    """

    client: PrometheusClient
    resolver: Resolver
    window: Window
    _addresses: dict[str, list[str]] = field(default_factory=dict)

    def node(self, name: str) -> Place | Finding:
        """Places a whole node."""
        slots = self.resolver.node(name)
        return Finding(SOURCE, name, "not a node of the fleet") if slots is None else Place(name, slots)

    def gpu(self, node: str, address: str) -> Place | Finding:
        """Places one GPU by its PCI address."""
        positions = self._positions(node)
        if isinstance(positions, Finding):
            return positions
        slots = self.resolver.gpu(node, positions[address]) if address in positions else None
        if slots is None:
            return Finding(SOURCE, f"{node} {address}", "no slot for this PCI address")
        return Place(f"{node}/{positions[address]}", slots)

    def gpus(self, addresses: Mapping[str, Iterable[str]]) -> tuple[Place | None, list[Finding]]:
        """Places many GPUs, given as PCI addresses per node; what cannot be placed is found, the rest stands."""
        self.learn(addresses)
        scopes: list[str] = []
        slots: list[tuple[int, int]] = []
        findings = []
        for node, wanted in sorted(addresses.items()):
            inside: list[Place] = []
            for placed in (self.gpu(node, address) for address in sorted(set(wanted))):
                if isinstance(placed, Finding):
                    findings.append(placed)
                else:
                    inside.append(placed)
            ranges = normalise(part for place in inside for part in place.slots)
            whole = bool(inside) and ranges == self.resolver.node(node)
            scopes += [node] if whole else [place.scope for place in inside]
            slots += ranges
        return (Place("+".join(scopes), normalise(slots)) if scopes else None), findings

    def learn(self, nodes: Iterable[str]) -> None:
        """Asks for the PCI addresses of many nodes at once."""
        missing = sorted(set(nodes) - self._addresses.keys())
        for first in range(0, len(missing), _NODES_PER_QUERY):
            chosen = missing[first : first + _NODES_PER_QUERY]
            selector = f"gpuminutes_gpu_up{{{one_of('node', chosen)}}}[{self.window.length_ms}ms]"
            expr = f"count by (node, slot) (present_over_time({selector}))"
            self._addresses.update({node: [] for node in chosen})
            for series in self.client.query(expr, self.window.end_ms - 1):
                if "slot" in series.labels:
                    self._addresses[series.labels["node"]].append(series.labels["slot"])

    def _positions(self, node: str) -> dict[str, int] | Finding:
        self.learn([node])
        slots = self.resolver.node(node)
        if slots is None:
            return Finding(SOURCE, node, "not a node of the fleet")
        # Addresses have fixed width in lower case, so the order of text is the order on the bus.
        addresses = sorted(self._addresses[node])
        if len(addresses) != count(slots):
            named = f"the exporter names {len(addresses)} GPUs, the fleet has {count(slots)} slots"
            return Finding(SOURCE, node, f"{named}: no GPU of it can be placed")
        return {address: position for position, address in enumerate(addresses)}
