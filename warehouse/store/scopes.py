"""What a scope covers: the words of a source become slot sets."""

from __future__ import annotations

from sqlalchemy import Connection, text

from warehouse.model.fleet import Place
from warehouse.model.slots import SlotRanges, normalise, overlap
from warehouse.store.places import places


class Resolver:
    """Turns scopes into slot sets: NODE, NODE/INDEX, rack:NAME, hall:NAME, site:NAME, joined by +."""

    def __init__(self, connection: Connection) -> None:
        self._by_name: dict[tuple[str, str], list[Place]] = {}
        for place in places(connection):
            self._by_name.setdefault((place.kind, place.name), []).append(place)
        self._gpus = {
            row.id: row.gpus
            for row in connection.execute(
                text(
                    "select p.id, count(distinct t.slot) as gpus from place p join tenure t on p.slots @> t.slot "
                    "where p.kind = 'node' and upper_inf(t.revs) group by p.id"
                )
            )
        }

    def scope(self, words: str) -> SlotRanges:
        """Gives the slots of a scope.

        Raises:
            ValueError: with a reason fit to print.
        """
        found: list[tuple[int, int]] = []
        for word in words.split("+"):
            found.extend(self._one(word.strip()))
        return normalise(found)

    def node(self, name: str) -> SlotRanges | None:
        """Gives the slots of a node that hold GPUs, None for an unknown or ambiguous name."""
        known = self._by_name.get(("node", name), [])
        if len(known) != 1:
            return None
        first = known[0].slots[-1][0]
        return ((first, first + self._gpus.get(known[0].id, 0)),)

    def gpu(self, node: str, position: int) -> SlotRanges | None:
        """Gives the slot of a node's GPU by position, None where there is none."""
        slots = self.node(node)
        if slots is None or not 0 <= position < slots[0][1] - slots[0][0]:
            return None
        return ((slots[0][0] + position, slots[0][0] + position + 1),)

    def _one(self, word: str) -> SlotRanges:
        kind, colon, name = word.partition(":")
        if colon:
            if kind not in ("rack", "hall", "site"):
                raise ValueError(f"scope '{word[:80]}' begins with none of rack:, hall:, site:")
            return self._named(kind, name).slots
        name, slash, index = word.partition("/")
        node = self._named("node", name)
        if not slash:
            return node.slots
        gpus = self._gpus.get(node.id, 0)
        if not (index.isascii() and index.isdecimal()) or int(index) >= gpus:
            raise ValueError(f"scope '{word[:80]}': node {name} has GPUs 0 to {gpus - 1}")
        first = node.slots[-1][0] + int(index)
        return overlap(node.slots, ((first, first + 1),))

    def _named(self, kind: str, name: str) -> Place:
        known = self._by_name.get((kind, name), [])
        if not known:
            raise ValueError(f"unknown {kind} '{name[:80]}'; load it first: gpu-minutes fleet load")
        if len(known) > 1:
            raise ValueError(f"{kind} '{name[:80]}' stands in {len(known)} places; name its nodes instead")
        return known[0]
