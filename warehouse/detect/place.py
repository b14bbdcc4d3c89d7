"""Puts what series name (nodes, PCI addresses, jobs) into the slots of the fleet, or says why it cannot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from warehouse.detect.site import OURS, Site
from warehouse.detect.targets import address, one_of
from warehouse.detect.words import SOURCE, Finding, Resolver
from warehouse.evidence.prometheus import PrometheusClient
from warehouse.model.slots import SlotRanges, count, normalise
from warehouse.model.time import Window
from warehouse.signals import load_dialects
from warehouse.signals.rewrite import EVERYWHERE, Use, rewrite

# Node names in one matcher: a request of some ten kilobytes at most.
_NODES_PER_QUERY = 200


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is: the scope in words, and its slots."""

    scope: str
    slots: SlotRanges


@dataclass(slots=True)
class Placer:
    """Places hits of one window; remembers the PCI addresses that it has asked for.

    A GPU whose UUID the fleet knows is where the fleet says. Else its position in its node is the rank of its PCI
    address among all addresses that the node's exporter named in the window; where that count is not the node's number
    of slots, no such GPU of it can be placed.
    """

    client: PrometheusClient
    resolver: Resolver
    window: Window
    site: Site
    _addresses: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def node(self, name: str) -> Place | Finding:
        """Places a whole node."""
        name = self._known(name)
        slots = self.resolver.node(name)
        return Finding(SOURCE, name, "not a node of the fleet") if slots is None else Place(name, slots)

    def scope(self, words: str) -> Place | Finding:
        """Places a scope in words, as a site's file gives it for an endpoint."""
        places: list[Place] = []
        for word in words.split("+"):
            name, slash, index = word.strip().partition("/")
            slots = self.resolver.gpu(name, int(index)) if slash and index.isdigit() else self.resolver.node(name)
            if slots is None:
                return Finding(SOURCE, words, f"'{word.strip()}' is no node or GPU of the fleet")
            places.append(Place(word.strip(), slots))
        return Place(words, normalise(part for place in places for part in place.slots))

    def gpu(self, node: str, address: str, uuid: str = "", teller: str = OURS) -> Place | Finding:
        """Places one GPU by its UUID or its PCI address."""
        node = self._known(node)
        index = self.resolver.position(node, uuid) if uuid else None
        if index is None:
            positions = self._positions(node, teller)
            if isinstance(positions, Finding):
                return positions
            index = positions.get(address)
        slots = None if index is None else self.resolver.gpu(node, index)
        if slots is None:
            return Finding(SOURCE, f"{node} {address}", "no slot for this PCI address")
        return Place(f"{node}/{index}", slots)

    def gpus(
        self, members: Mapping[str, Iterable[tuple[str, str]]], teller: str = OURS
    ) -> tuple[Place | None, list[Finding]]:
        """Places many GPUs, given as (address, uuid) per node; what cannot be placed is found, the rest stands."""
        self.learn(members, teller)
        scopes: list[str] = []
        slots: list[tuple[int, int]] = []
        findings = []
        for node, wanted in sorted(members.items()):
            inside: list[Place] = []
            for placed in (self.gpu(node, where, uuid, teller) for where, uuid in sorted(set(wanted))):
                if isinstance(placed, Finding):
                    findings.append(placed)
                else:
                    inside.append(placed)
            ranges = normalise(part for place in inside for part in place.slots)
            whole = bool(inside) and ranges == self.resolver.node(self._known(node))
            scopes += [self._known(node)] if whole else [place.scope for place in inside]
            slots += ranges
        return (Place("+".join(scopes), normalise(slots)) if scopes else None), findings

    def learn(self, nodes: Iterable[str], teller: str = OURS) -> None:
        """Asks for the PCI addresses of many nodes at once."""
        missing = sorted({node for node in nodes if (self._known(node), teller) not in self._addresses})
        for first in range(0, len(missing), _NODES_PER_QUERY):
            chosen = missing[first : first + _NODES_PER_QUERY]
            self._addresses.update({(self._known(node), teller): [] for node in chosen})
            for series in self.client.query(self._named(chosen, teller), self.window.end_ms - 1):
                if series.labels.get("slot") and series.labels.get("node"):
                    known = self._addresses.setdefault((self._known(series.labels["node"]), teller), [])
                    known.append(address(series.labels["slot"]))

    def _named(self, nodes: Iterable[str], teller: str) -> str:
        """Gives PromQL for the GPUs that an exporter named in the window."""
        length = f"{self.window.length_ms}ms"
        if teller in (OURS, ""):
            return f"count by (node, slot) (present_over_time(gpuminutes_gpu_up{{{one_of('node', nodes)}}}[{length}]))"
        dialect = next(dialect for dialect in load_dialects() if dialect.name == teller)
        said = [
            rewrite(Use(family, (), "present_over_time", length), dialect, self.site.labels[teller])
            for family in EVERYWHERE
        ]
        return f"count by (node, slot) ({' or '.join(f'({part})' for part in said if part)})"

    def _known(self, node: str) -> str:
        """Gives the fleet's name of a node: exporters may write the domain behind it, the fleet may not."""
        short = node.partition(".")[0]
        return short if self.resolver.node(node) is None and self.resolver.node(short) is not None else node

    def _positions(self, node: str, teller: str) -> dict[str, int] | Finding:
        self.learn([node], teller)
        slots = self.resolver.node(node)
        if slots is None:
            return Finding(SOURCE, node, "not a node of the fleet")
        # Addresses have fixed width in lower case, so the order of text is the order on the bus; numbers have none.
        addresses = sorted(set(self._addresses[(node, teller)]), key=lambda text: (len(text), text))
        if len(addresses) != count(slots):
            named = f"the exporter names {len(addresses)} GPUs, the fleet has {count(slots)} slots"
            return Finding(SOURCE, node, f"{named}: no GPU of it can be placed")
        return {address: position for position, address in enumerate(addresses)}
