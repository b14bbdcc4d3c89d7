"""Places and their slots: blocks of ids in topology order, given once and never again.

A node gets a block with room to grow, a rack a run that is a power of two, so that a rack, a hall or a site stays one
range or a few, and rolling up is one overlap of slot sets.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, text

from warehouse.model.fleet import NodeSpec, Place
from warehouse.model.slots import SlotRanges, normalise
from warehouse.store.rows import copy_in, multirange, reserve, revisions_from, slot_ranges

# Room to grow inside a node's block: 8 slots, or the next power of two for larger trays.
MIN_NODE_BLOCK = 8
KINDS = ("site", "hall", "rack", "node")

Path = tuple[str, ...]


def places(connection: Connection, rev: int | None = None) -> list[Place]:
    """Gives every place with what it covers at a revision, or as it stands; parents before children."""
    rows = connection.execute(
        text(
            "select p.id, p.kind, p.parent_id, p.name, x.slots from place p join place_extent x on x.place_id = p.id "
            "and case when cast(:rev as bigint) is null then upper_inf(x.revs) else x.revs @> cast(:rev as bigint) end "
            "order by p.id"
        ),
        {"rev": rev},
    )
    return [Place(r.id, r.kind, r.parent_id, r.name, slot_ranges(r.slots)) for r in rows]


def place_nodes(connection: Connection, fresh: Sequence[NodeSpec], rev: int) -> list[tuple[NodeSpec, int]]:
    """Stores the places of new nodes and gives each node the first slot of its block."""
    tree = _Tree(connection, fresh)
    placed = [(spec, tree.block_of(spec)) for spec in tree.ordered]
    tree.write(rev)
    return placed


def next_power_of_two(number: int) -> int:
    """Gives the smallest power of two that is not less than `number`."""
    return 1 << max(0, number - 1).bit_length()


def block_size(gpus: int) -> int:
    """Gives the slots that a node of so many GPUs is given."""
    return max(MIN_NODE_BLOCK, next_power_of_two(gpus))


class _Tree:
    def __init__(self, connection: Connection, fresh: Sequence[NodeSpec]) -> None:
        self.ordered = sorted(fresh, key=lambda s: [_natural(n) for n in (s.site, s.hall, s.rack, s.node)])
        self._connection = connection
        self._ids: dict[Path, int] = {}
        self._slots: dict[Path, SlotRanges] = {}
        self._free: dict[Path, list[tuple[int, int]]] = {}  # of a rack: where its runs still have room
        self._spec: dict[Path, NodeSpec] = {(s.site, s.hall, s.rack, s.node): s for s in reversed(self.ordered)}
        self._zone = {s.site: s.timezone for s in reversed(self.ordered) if s.timezone}
        self._currency = {s.site: s.currency for s in reversed(self.ordered) if s.currency}
        self._need: dict[Path, int] = {}
        for path, spec in self._spec.items():
            self._need[path[:3]] = self._need.get(path[:3], 0) + block_size(spec.gpus)
        by_id: dict[int, Path] = {}
        for place in places(connection):
            path = (*by_id.get(place.parent_id or 0, ()), place.name)
            by_id[place.id] = path
            self._ids[path], self._slots[path] = place.id, place.slots
        self._before = dict(self._slots)
        self._next = max((ranges[-1][1] for ranges in self._slots.values()), default=0)
        self._find_room()

    def _find_room(self) -> None:
        used: dict[Path, list[int]] = {}
        for path, ranges in self._slots.items():
            if len(path) == len(KINDS):
                used.setdefault(path[:3], []).extend(high for _, high in ranges)
        for rack, ends in used.items():
            self._free[rack] = [
                (max(end for end in ends if low < end <= high), high) for low, high in self._slots[rack]
            ]

    def block_of(self, spec: NodeSpec) -> int:
        path = (spec.site, spec.hall, spec.rack, spec.node)
        own = self._slots.get(path, ())
        if own and own[-1][1] - own[-1][0] >= spec.gpus:
            return own[-1][0]
        size = block_size(spec.gpus)
        first = self._take(path[:3], size)
        self._slots[path] = normalise([*own, (first, first + size)])
        return first

    def _take(self, rack: Path, size: int) -> int:
        """Takes a block from the rack's own padding, or opens a new run for the rack."""
        room = self._free.setdefault(rack, [])
        for at, (low, high) in enumerate(room):
            if low + size <= high:
                room[at] = (low + size, high)
                return low
        run = next_power_of_two(max(size, self._need[rack]))
        first = -(-self._next // run) * run
        self._next = first + run
        room.append((first + size, first + run))
        for depth in (1, 2, 3):
            place = rack[:depth]
            self._slots[place] = normalise([*self._slots.get(place, ()), (first, first + run)])
        return first

    def write(self, rev: int) -> None:
        """Stores new places, and for those that grew a new extent beside the old one."""
        in_order = sorted(self._slots, key=lambda p: (len(p), self._slots[p]))
        fresh = [path for path in in_order if path not in self._ids]
        grown = [
            self._ids[path] for path in in_order if path in self._before and self._slots[path] != self._before[path]
        ]
        self._insert(fresh, rev)
        self._connection.execute(
            text(
                "update place_extent set revs = int8range(lower(revs), :rev) "
                "where upper_inf(revs) and place_id = any(:ids)"
            ),
            {"rev": rev, "ids": grown},
        )
        changed = [path for path in self._slots if self._slots[path] != self._before.get(path)]
        copy_in(
            self._connection, "place_extent", ("place_id", "slots", "revs"), ("int4", "int4multirange", "int8range"),
            [(self._ids[path], multirange(self._slots[path]), revisions_from(rev)) for path in changed],
        )  # fmt: skip

    def _insert(self, fresh: Sequence[Path], rev: int) -> None:
        """Stores places at once, parents before children: ten thousand nodes are one message and not ten thousand."""
        self._ids |= zip(fresh, reserve(self._connection, "place", len(fresh)), strict=True)
        rows = []
        for path in fresh:
            spec = self._spec.get(path)
            is_site = len(path) == 1
            rows.append(
                (
                    self._ids[path],
                    KINDS[len(path) - 1],
                    self._ids.get(path[:-1]),
                    path[-1],
                    rev,
                    revisions_from(rev),
                    self._zone.get(path[0], "UTC") if is_site else None,
                    self._currency.get(path[0]) if is_site else None,
                    *((spec.power_domain, spec.leaf_switch, spec.blast_domain) if spec else (None, None, None)),
                )
            )
        columns = {
            "id": "int4", "kind": "text", "parent_id": "int4", "name": "text", "rev": "int8", "revs": "int8range",
            "timezone": "text", "currency": "text", "power_domain": "text", "leaf_switch": "text",
            "blast_domain": "text",
        }  # fmt: skip
        copy_in(self._connection, "place", list(columns), list(columns.values()), rows)


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """Gives an order in which node2 comes before node10."""
    parts: list[tuple[int, str]] = []
    digits = ""
    for letter in name + "\0":
        if letter.isdecimal() and letter.isascii():
            digits += letter
            continue
        if digits:
            parts.append((int(digits), ""))
            digits = ""
        parts.append((-1, letter))
    return tuple(parts)
