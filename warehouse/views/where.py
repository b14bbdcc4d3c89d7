"""Where slots are, in words: places with their slots as the fleet stood at a revision."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter

from sqlalchemy import Connection, text

from warehouse.errors import BadInput
from warehouse.model.fleet import Site
from warehouse.model.slots import SlotRanges
from warehouse.store import fleet
from warehouse.store.rows import multirange
from warehouse.views.axis import Named

KINDS = ("site", "hall", "rack", "node")

# A name is the key where it is the only one of its kind; otherwise its path is, so that no two places share a row.
_PLACES = """
select p.name, concat_ws('/', d.name, c.name, b.name, p.name) as path, p.id, lower(r) as low, upper(r) as high
from place p join place_extent x on x.place_id = p.id and x.revs @> cast(:rev as bigint)
left join place b on b.id = p.parent_id left join place c on c.id = b.parent_id left join place d on d.id = c.parent_id,
unnest(x.slots::int4multirange) as r
where p.kind = :kind and (cast(:slots as int4multirange) is null or x.slots && cast(:slots as int4multirange))
order by low
"""


def named(connection: Connection, rev: int, kind: str) -> list[Named]:
    """Gives the places of a kind as disjoint named slots, in order."""
    rows = connection.execute(text(_PLACES), {"rev": rev, "kind": kind, "slots": None}).all()
    often = Counter(name for name, _ in {(name, number) for name, _, number, _, _ in rows})
    return [(low, high, name if often[name] == 1 else path) for name, path, _, low, high in rows]


def site(connection: Connection, rev: int, name: str) -> Site:
    """Gives a site by name.

    Raises:
        BadInput: naming those that are known.
    """
    known = fleet.sites(connection, rev)
    found = next((site for site in known if site.name == name), None)
    if found is None:
        raise BadInput(
            f"--site: there is no site '{name[:80]}'; known are {', '.join(s.name for s in known) or 'none'}"
        )
    return found


class Nodes:
    """Says in words which nodes slots belong to."""

    _NAMED = 3

    def __init__(self, connection: Connection, rev: int, slots: SlotRanges | None = None) -> None:
        """Reads the nodes as the fleet stood at a revision: those of some slots, or all."""
        wanted = None if slots is None else multirange(slots)
        rows = connection.execute(text(_PLACES), {"rev": rev, "kind": "node", "slots": wanted}).all()
        self._nodes = [(low, high, name) for name, _, _, low, high in rows]
        self._starts = [low for low, _, _ in self._nodes]

    def of(self, slots: SlotRanges) -> list[str]:
        """Gives the names of the nodes that the slots touch, in topology order."""
        found: dict[str, None] = {}
        for low, high in slots:
            at = max(0, bisect_right(self._starts, low) - 1)
            while at < len(self._nodes) and self._nodes[at][0] < high:
                if self._nodes[at][1] > low:
                    found[self._nodes[at][2]] = None
                at += 1
        return list(found)

    def describe(self, nodes: list[str], gpus: int) -> str:
        """Gives the nodes by name while they are few, else their number."""
        if len(nodes) > self._NAMED:
            return f"{len(nodes)} nodes, {nodes[0]} to {nodes[-1]}"
        return ", ".join(nodes) + (" (1 GPU)" if gpus == 1 else "")
