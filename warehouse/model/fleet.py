"""The fleet: places that own slots, and tenures that say which GPU sat in a slot when."""

from __future__ import annotations

from dataclasses import dataclass

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
