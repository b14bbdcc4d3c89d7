"""What a scope covers: the words of a source become slot sets.

A node may have held other slots at other times (moved, rebuilt with more GPUs), so its words are read at the instant
that they speak of.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field

from sqlalchemy import Connection

from warehouse.model.fleet import Place, TenureBlock
from warehouse.model.slots import SlotRanges, normalise, overlap
from warehouse.store.fleet import frames
from warehouse.store.fleet import nodes as fleet_nodes
from warehouse.store.gpus import uuids
from warehouse.store.places import places
from warehouse.store.revisions import newest_rev

KINDS = ("rack", "hall", "site")


@dataclass(slots=True)
class _Node:
    place: Place
    site: str
    tenures: list[tuple[int, float, SlotRanges]] = field(default_factory=list)

    def at(self, at_ms: int) -> SlotRanges | None:
        """Gives the slots that the node had at an instant, empty ones among them, None where it had none."""
        found = [slots for start, end, slots in self.tenures if start <= at_ms < end]
        return normalise([part for slots in found for part in slots]) or None


def _nearest(nodes: list[_Node], at_ms: int) -> SlotRanges:
    """Gives the slots that a node held at an instant, else those it held last before it, else those it held first."""
    here = [slots for node in nodes if (slots := node.at(at_ms))]
    if here:
        return normalise(part for slots in here for part in slots)
    tenures = sorted(tenure for node in nodes for tenure in node.tenures)
    before = [tenure for tenure in tenures if tenure[0] <= at_ms]
    chosen = before[-1] if before else tenures[0]
    return normalise(part for start, _, slots in tenures if start == chosen[0] for part in slots)


class Resolver:
    """Turns scopes into slot sets: NODE, NODE/INDEX, rack:NAME, hall:NAME, site:NAME, joined by +.

    Where two sites have a node of the same name, `site:SITE/NODE` and `site:SITE/NODE/INDEX` tell them apart.
    """

    def __init__(self, connection: Connection, at_ms: int = 0) -> None:
        """Reads the fleet as it stands; `at_ms` is the instant for `node` and `gpu`."""
        self._at_ms = at_ms
        self._places: dict[tuple[str, str], list[Place]] = {}
        self._nodes: dict[str, list[_Node]] = {}
        by_id: dict[int, Place] = {}
        nodes: list[_Node] = []
        for place in places(connection):
            by_id[place.id] = place
            self._places.setdefault((place.kind, place.name), []).append(place)
            if place.kind == "node":
                node = _Node(place, _site_of(place, by_id))
                nodes.append(node)
                self._nodes.setdefault(place.name, []).append(node)
        _give_tenures(nodes, frames(connection, newest_rev(connection)))
        self._by_uuid: dict[str, int] = {}
        self._domains: dict[str, tuple[str, ...]] = {}
        self._sizes: Counter[str] = Counter()

    def learn(self, connection: Connection) -> None:
        """Reads which GPU sits where and which domains each node belongs to, for `position`, `domains` and `size`."""
        self._by_uuid = uuids(connection, self._at_ms)
        for node in fleet_nodes(connection, newest_rev(connection)):
            if node.stands_at(self._at_ms):
                kinds = zip(("power domain", "leaf switch", "blast domain"), node.domains, strict=True)
                named = [f"{kind} {name}" for kind, name in kinds if name]
                found = (*named, f"rack {node.path}", f"hall {node.site}/{node.hall}")
                self._domains[node.node] = found
                self._sizes.update(found)

    def position(self, node: str, uuid: str) -> int | None:
        """Gives the position of a GPU in its node by its UUID, None where the fleet does not know it there."""
        slots, slot = self.node(node), self._by_uuid.get(uuid)
        if slots is None or slot is None:
            return None
        inside = [at for low, high in slots for at in range(low, high)]
        return inside.index(slot) if slot in inside else None

    def domains(self, node: str) -> tuple[str, ...]:
        """Gives the domains of a node in words: what may take all of their nodes at once."""
        return self._domains.get(node, ())

    def size(self, domain: str) -> int:
        """Gives how many nodes a domain has."""
        return self._sizes[domain]

    def scope(self, words: str, at_ms: int) -> SlotRanges:
        """Gives the slots of a scope that is spoken of at an instant.

        Raises:
            ValueError: with a reason fit to print.
        """
        found: list[tuple[int, int]] = []
        for word in words.split("+"):
            found.extend(self._one(word.strip(), at_ms))
        return normalise(found)

    def node(self, name: str) -> SlotRanges | None:
        """Gives the slots that a node holds or held last, None for an unknown or ambiguous name or one yet to come."""
        known = [node for node in self._nodes.get(name, []) if any(t[0] <= self._at_ms for t in node.tenures)]
        known = [node for node in known if node.at(self._at_ms)] or known
        return _nearest(known, self._at_ms) if len({node.site for node in known}) == 1 else None

    def gpu(self, node: str, position: int) -> SlotRanges | None:
        """Gives the slot of a node's GPU by position, None where there is none."""
        slots = self.node(node)
        return None if slots is None else _nth(slots, position)

    def _one(self, word: str, at_ms: int) -> SlotRanges:
        kind, colon, name = word.partition(":")
        if not colon:
            return self._node(word, word, None, at_ms)
        if kind not in KINDS:
            raise ValueError(f"scope '{word[:80]}' begins with none of rack:, hall:, site:")
        site, slash, rest = name.partition("/")
        if kind == "site" and slash:
            return self._node(word, rest, site, at_ms)
        known = self._places.get((kind, name), [])
        if not known:
            raise ValueError(f"unknown {kind} '{name[:80]}'; load it first: gpu-minutes fleet load")
        if len(known) > 1:
            raise ValueError(f"{kind} '{name[:80]}' stands in {len(known)} places; name its nodes instead")
        return known[0].slots

    def _node(self, word: str, name: str, site: str | None, at_ms: int) -> SlotRanges:
        name, slash, index = name.partition("/")
        known = [node for node in self._nodes.get(name, []) if site in (None, node.site)]
        if not known:
            raise ValueError(f"unknown node '{name[:80]}'; load it first: gpu-minutes fleet load")
        if len(known) > 1:
            known = [node for node in known if node.at(at_ms)] or known
        if len({node.site for node in known}) > 1:
            sites = " or ".join(sorted(f"site:{node.site}/{name}" for node in known))
            raise ValueError(f"node '{name[:80]}' stands in {len(known)} sites; write {sites}")
        slots = _nearest(known, at_ms)
        if not slash:
            return slots
        gpus = sum(high - low for low, high in slots)
        found = _nth(slots, int(index)) if re.fullmatch(r"0|[1-9][0-9]{0,6}", index) else None
        if found is None:
            raise ValueError(f"scope '{word[:80]}': node {name} has GPUs 0 to {gpus - 1}")
        return found


def _nth(slots: SlotRanges, position: int) -> SlotRanges | None:
    if position < 0:
        return None
    for low, high in slots:
        if position < high - low:
            return ((low + position, low + position + 1),)
        position -= high - low
    return None


def _site_of(place: Place, by_id: dict[int, Place]) -> str:
    while place.parent_id is not None:
        place = by_id[place.parent_id]
    return place.name


def _give_tenures(nodes: list[_Node], blocks: list[TenureBlock]) -> None:
    """Hands each node its part of every block; blocks are few, so nodes are found by their first slot."""
    parts = sorted((low, high, at) for at, node in enumerate(nodes) for low, high in node.place.slots)
    starts = [low for low, _, _ in parts]
    for block in blocks:
        for low, high in block.slots:
            at = max(0, bisect_right(starts, low) - 1)
            while at < len(parts) and parts[at][0] < high:
                mine = overlap(((parts[at][0], parts[at][1]),), ((low, high),))
                if mine:
                    nodes[parts[at][2]].tenures.append((block.start_ms, block.end_ms or float("inf"), mine))
                at += 1
