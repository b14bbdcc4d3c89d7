"""Whom a foreign sample is about: node, GPU and slot, read from whatever labels its exporter uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from exporter.slot import normalise_slot
from warehouse.signals import OURS
from warehouse.signals.alias import MISSING_TEXTS, NO_UUID, NODE_LABELS, Dialect, From, Reason
from warehouse.signals.page import Raw


class Refuse(Exception):
    """Ends the reading of one sample, with the reason."""

    def __init__(self, reason: Reason, why: str) -> None:
        super().__init__(why)
        self.reason: Reason = reason
        self.why = why


class Gpu(NamedTuple):
    """A GPU as a sample names it; what it does not say is "".

    Attributes:
        node: name of the node.
        uuid: the UUID, or `NO_UUID` and the GPU's number on its node.
        slot: normalised PCI address.
        bad_address: True where there was an address that cannot be read.
    """

    node: str
    uuid: str
    slot: str
    bad_address: bool = False


def who(raw: Raw, dialect: Dialect, slots: Mapping[str, str], node: str) -> Gpu:
    """Gives the GPU of a sample.

    Args:
        raw: the sample.
        dialect: how it speaks.
        slots: PCI addresses by UUID, for samples that do not say their own.
        node: name of the node for samples that do not say it.

    Raises:
        Refuse: when neither a UUID nor a number of the GPU is there.
    """
    node = node_of(raw, node)
    if dialect.name == OURS:
        return Gpu(node, raw.labels.get("uuid", ""), raw.labels.get("slot", ""))
    uuid = uuid_of(raw, dialect)
    if not uuid:
        index = raw.labels.get(dialect.index, "")
        if not index:
            raise Refuse("no_gpu", "no label says which GPU this is about")
        uuid = NO_UUID + index
    address = raw.labels.get(dialect.slot, "") or slots.get(uuid, "")
    try:
        return Gpu(node, uuid, normalise_slot(address) if address else "")
    except ValueError:
        return Gpu(node, uuid, "", bad_address=True)


def node_of(raw: Raw, node: str) -> str:
    """Gives the node that a sample names, else the one given."""
    return next((raw.labels[label] for label in NODE_LABELS if raw.labels.get(label)), node)


def uuid_of(raw: Raw, dialect: Dialect) -> str:
    """Gives the UUID as NVML spells it, "" where the sample has none."""
    for label in dialect.uuid:
        found = raw.labels.get(label, "")
        if found and found != dialect.uuid_unknown:
            return prefixed(found, dialect.uuid_prefix)
    return ""


def text(raw: Raw, label: str) -> str:
    """Gives the value of a label; every way to say "there is none" is the empty text."""
    found = raw.labels.get(label, "")
    return "" if found in MISSING_TEXTS else found


def copied(raw: Raw, labels: Iterable[str | From]) -> tuple[str, ...]:
    """Gives label values of ours, constant or copied.

    Raises:
        Refuse: when one that is needed is missing.
    """
    values = []
    for label in labels:
        if isinstance(label, str):
            values.append(label)
            continue
        found = text(raw, label.label)
        if label.needed and not found:
            raise Refuse("bad_label", f"label {label.label} is missing")
        values.append(prefixed(found, label.prefix))
    return tuple(values)


def prefixed(found: str, prefix: str) -> str:
    """Gives a text with its prefix, once; "" stays "" ."""
    return found if not found or found.startswith(prefix) else prefix + found


def slots_by_uuid(page: Iterable[Raw], dialects: Iterable[Dialect]) -> dict[str, str]:
    """Gives PCI addresses by UUID, where one series of a dialect says it for all."""
    tellers = {dialect.slot_info: dialect for dialect in dialects if dialect.slot_info}
    return {uuid_of(raw, tellers[raw.name]): text(raw, tellers[raw.name].slot) for raw in page if raw.name in tellers}
