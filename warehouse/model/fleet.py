"""The fleet: places that own slots, and tenures that say which GPU sat in a slot when."""

from __future__ import annotations

from dataclasses import dataclass, field

from warehouse.model.slots import SlotRanges


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One row of a fleet file: a node with `gpus` GPUs of one model from `commissioned_ms` to `retired_ms`."""

    site: str
    hall: str
    rack: str
    node: str
    gpus: int
    model: str
    commissioned_ms: int
    retired_ms: int | None = None
    power_domain: str | None = None
    leaf_switch: str | None = None
    blast_domain: str | None = None
    timezone: str | None = None
    stranded: bool = False
    contract: str | None = None
    currency: str | None = None
    where: str = field(default="", compare=False, repr=False)  # file and line, for messages


@dataclass(frozen=True, slots=True)
class StoredNode:
    """A node as the fleet file put it there: slots `[first_slot, first_slot + gpus)`, each with a GPU in it or not.

    `end_ms` None means that it still stands. `domains` are power domain, leaf switch and blast domain.
    """

    place_id: int
    site: str
    hall: str
    rack: str
    node: str
    first_slot: int
    gpus: int
    model: str
    start_ms: int
    end_ms: int | None
    stranded: bool
    contract: str | None
    domains: tuple[str | None, str | None, str | None]
    timezone: str
    currency: str | None

    @property
    def path(self) -> str:
        """Gives where it stands in words: hall/rack."""
        return f"{self.hall}/{self.rack}"

    def stands_at(self, at_ms: int) -> bool:
        """Tells whether it is installed at an instant."""
        return self.start_ms <= at_ms and (self.end_ms is None or at_ms < self.end_ms)


@dataclass(frozen=True, slots=True)
class Placing:
    """One row of a file of GPUs: since `start_ms` this GPU sits in a node's slot; without uuid and serial, none does.

    `model` None means the only model that the slot has ever held.
    """

    node: str
    index: int
    start_ms: int
    uuid: str | None = None
    serial: str | None = None
    model: str | None = None
    site: str | None = None
    why: str | None = None
    where: str = field(default="", compare=False, repr=False)  # file and line, for messages

    @property
    def empty(self) -> bool:
        """Tells whether the slot holds no GPU since then."""
        return self.uuid is None and self.serial is None


@dataclass(frozen=True, slots=True)
class TenureBlock:
    """Slots that hold GPUs of one model and contract over one span; `end_ms` None means still installed."""

    slots: SlotRanges
    start_ms: int
    end_ms: int | None
    model: str
    stranded: bool
    contract: str | None = None


@dataclass(frozen=True, slots=True)
class Site:
    """A site: the zone of its calendar and the currency of its books, None where the rate card decides."""

    id: int
    name: str
    slots: SlotRanges
    timezone: str
    currency: str | None


@dataclass(frozen=True, slots=True)
class Place:
    """A site, hall, rack or node with the slots that it owns."""

    id: int
    kind: str
    parent_id: int | None
    name: str
    slots: SlotRanges
