"""Contested time: stretches in which jobs together claim more than the whole of a GPU, so that nobody holds it."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from sqlalchemy import Connection, text

from warehouse.model.fleet import TenureBlock
from warehouse.model.slots import SlotRanges, count, normalise, overlap
from warehouse.model.state import PPM
from warehouse.model.time import Window
from warehouse.store.fleet import frames
from warehouse.store.places import places
from warehouse.store.rows import IN_TIME, instant

Parties = tuple[tuple[str, int], ...]

# An entry with sharers and no holder is contested, whatever its state: a fault keeps the state and changes no claim.
_TILES = f"""
select lower(e.slots) as slot_from, upper(e.slots) as slot_to, ms_of(lower(e.during * w.during)) as start_ms,
  ms_of(upper(e.during * w.during)) as end_ms,
  (select array_agg(a.job order by a.job) from allocation a where a.id = any(e.sharers)) as jobs,
  (select array_agg(coalesce(a.share_ppm, {PPM}) order by a.job) from allocation a where a.id = any(e.sharers)) as ppm
from ledger_entry e, (select tstzrange(:start, :end) as during) w
where e.revs @> cast(:rev as bigint) and e.{IN_TIME} and e.sharers is not null and e.allocation_id is null
"""  # noqa: S608 - names of our own
_OF_REVISION = " and e.sharers && array(select id from allocation where lower(revs) = cast(:rev as bigint))"


@dataclass(frozen=True, slots=True)
class Conflict:
    """Slots x [start, end) that the same jobs claim above the whole; `jobs` are (job, share in ppm), sorted.

    `scope` says where, in the words of a scope: NODE where all GPUs of a node are meant, else NODE/INDEX.
    """

    slots: SlotRanges
    start_ms: int
    end_ms: int
    jobs: Parties
    scope: tuple[str, ...]

    @property
    def gpu_ms(self) -> int:
        """Gives the contested area in GPU-milliseconds."""
        return count(self.slots) * (self.end_ms - self.start_ms)

    @property
    def claimed_ppm(self) -> int:
        """Gives what the jobs claim together of each GPU, in parts per million; above 1,000,000."""
        return sum(ppm for _, ppm in self.jobs)


def conflicts(connection: Connection, rev: int, window: Window, *, of_import: bool = False) -> list[Conflict]:
    """Gives the contested stretches of a window at a revision, in order of time; entries that touch are joined.

    Args:
        connection: an open read-only connection.
        rev: the revision to read.
        window: stretches are clipped to it.
        of_import: True leaves only those in which an allocation takes part that this revision brought.

    Law: the stretches do not overlap, and their area is that of the contested entries.
    """
    rows = connection.execute(
        text(_TILES + (_OF_REVISION if of_import else "")),
        {"rev": rev, "start": instant(window.start_ms), "end": instant(window.end_ms)},
    )
    tiles: dict[Parties, list[tuple[int, int, int, int]]] = defaultdict(list)
    for row in rows:
        parties = tuple(zip(row.jobs, row.ppm, strict=True))
        tiles[parties].append((row.slot_from, row.slot_to, row.start_ms, row.end_ms))
    if not tiles:
        return []
    names = _Names(connection, rev)
    found = [
        Conflict(slots, start_ms, end_ms, parties, names.scope(slots, start_ms))
        for parties, of_parties in tiles.items()
        for slots, start_ms, end_ms in _joined(of_parties)
    ]
    return sorted(found, key=lambda c: (c.start_ms, c.slots, c.jobs))


def share(ppm: int) -> str:
    """Gives a share as it stands in allocations.csv."""
    return f"{(Decimal(ppm) / PPM).normalize():f}"


def _joined(tiles: Sequence[tuple[int, int, int, int]]) -> list[tuple[SlotRanges, int, int]]:
    """Joins tiles (slots from, to, start, end) that touch in time, then slots with the same time."""
    edges = sorted({edge for low, high, _, _ in tiles for edge in (low, high)})
    times: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for low, high, start_ms, end_ms in tiles:
        at = bisect_right(edges, low) - 1
        while edges[at] < high:
            times[edges[at], edges[at + 1]].append((start_ms, end_ms))
            at += 1
    slots: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for strip, spans in times.items():
        for span in normalise(spans):
            slots[span].append(strip)
    return [(normalise(strips), *span) for span, strips in slots.items()]


@dataclass(slots=True)
class _Node:
    name: str
    slots: SlotRanges
    tenures: list[tuple[int, int | None, SlotRanges]] = field(default_factory=list)

    def at(self, at_ms: int) -> SlotRanges:
        """Gives the slots that the node has at an instant, empty ones among them: an index counts these."""
        return normalise(
            part
            for start, end, slots in self.tenures
            if start <= at_ms and (end is None or at_ms < end)
            for part in slots
        )


class _Names:
    """Says in the words of a scope where slots are, as the fleet stood at a revision."""

    def __init__(self, connection: Connection, rev: int) -> None:
        site: dict[int, str] = {}
        nodes = []
        for place in places(connection, rev):
            site[place.id] = place.name if place.parent_id is None else site[place.parent_id]
            if place.kind == "node":
                nodes.append((place.name, site[place.id], place.slots))
        sites: dict[str, set[str]] = defaultdict(set)
        for name, its_site, _ in nodes:
            sites[name].add(its_site)
        known = [
            _Node(name if len(sites[name]) == 1 else f"site:{its_site}/{name}", slots)
            for name, its_site, slots in nodes
        ]
        self._parts = sorted(((low, high, at) for at, node in enumerate(known) for low, high in node.slots))
        self._starts = [low for low, _, _ in self._parts]
        self._nodes = known
        self._give_tenures(frames(connection, rev))

    def scope(self, slots: SlotRanges, at_ms: int) -> tuple[str, ...]:
        words: list[str] = []
        for node in self._touched(slots):
            here = node.at(at_ms)
            mine = overlap(here, slots)
            if mine == here:
                words.append(node.name)
                continue
            places_of = [slot for low, high in here for slot in range(low, high)]
            words += [
                f"{node.name}/{index}"
                for index, slot in enumerate(places_of)
                if any(low <= slot < high for low, high in mine)
            ]
        return tuple(words)

    def _touched(self, slots: SlotRanges) -> Iterable[_Node]:
        found: dict[int, None] = {}
        for low, high in slots:
            at = max(0, bisect_right(self._starts, low) - 1)
            while at < len(self._parts) and self._parts[at][0] < high:
                if self._parts[at][1] > low:
                    found[self._parts[at][2]] = None
                at += 1
        return [self._nodes[at] for at in found]

    def _give_tenures(self, blocks: Iterable[TenureBlock]) -> None:
        for block in blocks:
            for part in block.slots:
                for node in self._touched((part,)):
                    node.tenures.append((block.start_ms, block.end_ms, overlap(node.slots, (part,))))
