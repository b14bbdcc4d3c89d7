"""From what the sources say to one verdict a GPU. Pure.

Laws:
    * held: a source says so. Free: a source that sees all allocations of its kind says so, and none says that the GPU
      is, or may be, held. Anything else is unknown, with a reason; unknown is never free;
    * a source that sees only processes adds what no other source knows, and frees nothing;
    * a device name that fits several GPUs holds none of them for sure: each may be held.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Literal

from exporter.allocation import FREE, Allocations, Claim, Device, Holder
from exporter.errors import Reason
from exporter.readings import Identity

MOST_HOLDERS: Final = 64

Numbering = Literal["auto", "index", "minor"]
"""What Slurm's number of a GPU is: NVML's index, the number of the device file, or whichever if both agree."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Who holds one GPU.

    Attributes:
        allocated: True or False where it is known.
        holders: who, as far as they are known; at most `MOST_HOLDERS`.
        reason: why `allocated` is not known.
    """

    allocated: bool | None
    holders: tuple[Holder, ...] = ()
    reason: Reason | None = None


class Gpus:
    """The GPUs of the node by every name that a source may use.

    Args:
        gpus: the GPUs that the node should have.
        board_by_mig: UUID of the board by UUID of its MIG device.
        numbering: see `Numbering`.
    """

    def __init__(self, gpus: Sequence[Identity], board_by_mig: Mapping[str, str], numbering: Numbering) -> None:
        self.uuids = tuple(gpu.uuid for gpu in gpus)
        self._gpus = tuple(gpus)
        self._board_by_mig = board_by_mig
        self._numbering = numbering

    def find(self, devices: Iterable[Device]) -> tuple[set[str], dict[str, Reason]]:
        """Which GPUs are meant, all devices of one claim together.

        Returns:
            UUIDs that are meant for sure, and those that may be meant with the reason of the doubt.
        """
        sure: set[str] = set()
        doubt: dict[str, Reason] = {}
        numbers: set[str] = set()
        for device in devices:
            if device.by == "gres" and self._numbering == "auto":
                numbers.add(device.name)
                continue
            found, maybe = self._one(device)
            sure |= found
            doubt |= dict.fromkeys(maybe, "unknown_device")
        if numbers:
            found, doubts = self._numbered(numbers)
            sure |= found
            doubt |= doubts
        return sure, {uuid: reason for uuid, reason in doubt.items() if uuid not in sure}

    def _one(self, device: Device) -> tuple[set[str], set[str]]:
        by = self._numbering if device.by == "gres" else device.by
        if by == "uuid":
            return {device.name} & set(self.uuids), set()
        if by == "mig":
            board = self._board_by_mig.get(device.name)
            if board is not None:
                return {board} & set(self.uuids), set()
            # It may be any board that can have MIG devices, and any whose mode the driver did not tell.
            return set(), {gpu.uuid for gpu in self._gpus if gpu.mig_mode != "disabled"}
        if by == "index" and self._in_doubt({device.name}):
            return set(), self._in_doubt({device.name})
        numbers = {gpu.uuid: gpu.index if by == "index" else gpu.minor for gpu in self._gpus}
        found = {uuid for uuid, number in numbers.items() if str(number) == device.name}
        if len(found) == 1:
            return found, set()
        return set(), found or {uuid for uuid, number in numbers.items() if number is None}

    def _in_doubt(self, names: Iterable[str]) -> set[str]:
        """UUIDs that names by index may mean, where two GPUs have had the same index; empty if nothing is in doubt.

        One fell off the bus and those behind it moved up: nobody knows from which of the two numberings a name is.
        Those before it kept their index.
        """
        known = sorted(gpu.index for gpu in self._gpus if gpu.index is not None)
        first = next((index for index, after in pairwise(known) if index == after), None)
        if first is None or not any(name.isdigit() and int(name) >= first for name in names):
            return set()
        return {gpu.uuid for gpu in self._gpus if gpu.index is None or gpu.index >= first}

    def _numbered(self, numbers: set[str]) -> tuple[set[str], dict[str, Reason]]:
        """GPUs by Slurm's numbers of one job.

        These are positions in gres.conf. With AutoDetect=nvml they follow the PCI addresses, as NVML's index does;
        older releases and lists of device files follow the number in /dev/nvidiaN, which can be another (gres.conf(5),
        "Links"). A GPU is meant for sure if both readings say so. With MIG on, MIG devices are counted too, and no
        number can be read.
        """
        if any(gpu.mig_mode == "enabled" for gpu in self._gpus):
            return set(), dict.fromkeys(self.uuids, "not_supported")
        if self._in_doubt(numbers):
            return set(), dict.fromkeys(self.uuids, "unknown_device")
        by_index = {gpu.uuid for gpu in self._gpus if str(gpu.index) in numbers}
        if len(by_index) == len(numbers) == len(self._gpus):
            return by_index, {}
        by_minor = {gpu.uuid for gpu in self._gpus if str(gpu.minor) in numbers}
        unnumbered = {gpu.uuid for gpu in self._gpus if gpu.minor is None or gpu.index is None}
        sure = by_index & by_minor
        return sure, dict.fromkeys((by_index | by_minor | unnumbered) - sure, "unknown_device")


class _Tally:
    """What all sources of one sort (those that see allocations, or those that see processes) say together."""

    def __init__(self, gpus: Gpus, said: Iterable[Allocations]) -> None:
        self.held: dict[str, list[Claim]] = {uuid: [] for uuid in gpus.uuids}
        self.doubt: dict[str, Reason] = {}
        self.free: set[str] = set()
        self.unplaced = 0
        for allocations in said:
            self._add(gpus, allocations)

    def _add(self, gpus: Gpus, allocations: Allocations) -> None:
        named: set[str] = set()
        for claim in allocations.claims:
            sure, doubt = gpus.find(claim.devices)
            named |= sure
            for uuid in sure:
                self.held[uuid].append(claim)
            self.doubt |= doubt
            self.unplaced += bool(claim.devices) and not sure and not doubt
        for device, reason in allocations.unsure:
            sure, doubt = gpus.find((device,))
            self.doubt |= dict.fromkeys((*sure, *doubt), reason)
        free, _ = gpus.find(allocations.free)
        if allocations.rest == FREE:
            free = set(gpus.uuids)
        elif allocations.rest is not None:
            self.doubt |= dict.fromkeys(set(gpus.uuids) - named - free, allocations.rest)
        self.free |= free - named


def judge(
    gpus: Gpus, by_allocation: Iterable[Allocations], by_process: Iterable[Allocations]
) -> tuple[dict[str, Verdict], tuple[Reason, ...]]:
    """One verdict a GPU.

    Args:
        gpus: the GPUs of the node.
        by_allocation: what the sources say that see allocations.
        by_process: what the sources say that see processes alone.

    Returns:
        Verdicts by UUID, and what was left out: one reason each, to be counted.
    """
    known, seen = _Tally(gpus, by_allocation), _Tally(gpus, by_process)
    running = _pods_by_gpu(seen)
    dropped: list[Reason] = ["unknown_device"] * known.unplaced if gpus.uuids else []
    verdicts: dict[str, Verdict] = {}
    for uuid in gpus.uuids:
        moved = tuple(_moved(uuid, known, seen))
        if known.held[uuid] or moved:
            verdict = Verdict(True, _joined((*_rows(uuid, known.held[uuid], running), *moved)))
        elif uuid in known.free and uuid not in known.doubt:
            verdict = Verdict(False)
        elif seen.held[uuid]:
            verdict = Verdict(True, _joined(claim.holder for claim in seen.held[uuid]))
        else:
            verdict = Verdict(None, reason=known.doubt.get(uuid, "not_found"))
        dropped += ["too_many"] * (len(verdict.holders) - MOST_HOLDERS)
        verdicts[uuid] = replace(verdict, holders=verdict.holders[:MOST_HOLDERS])
    return verdicts, tuple(dropped)


Pod = tuple[str, str]


def _pod(holder: Holder) -> Pod:
    return (holder.namespace, holder.pod)


def _pods_by_gpu(seen: _Tally) -> dict[Pod, set[str]]:
    """On which GPUs a pod has processes, for pods that are known by name."""
    found: dict[Pod, set[str]] = {}
    for uuid, claims in seen.held.items():
        for claim in claims:
            if claim.holder.namespace:
                found.setdefault(_pod(claim.holder), set()).add(uuid)
    return found


def _rows(uuid: str, claims: Iterable[Claim], running: Mapping[Pod, set[str]]) -> Iterable[Holder]:
    """Holders of a GPU; a pod with a share runs where its processes are, if the driver sees any."""
    for claim in claims:
        if not claim.shared or uuid in running.get(_pod(claim.holder), {uuid}):
            yield claim.holder


def _moved(uuid: str, known: _Tally, seen: _Tally) -> Iterable[Holder]:
    """Pods with a share of another GPU whose processes run on this one."""
    pods = {_pod(claim.holder) for claim in seen.held[uuid] if claim.holder.namespace}
    for other, claims in known.held.items():
        for claim in claims:
            if other != uuid and claim.shared and _pod(claim.holder) in pods:
                yield claim.holder


def _joined(holders: Iterable[Holder]) -> tuple[Holder, ...]:
    """Each workload once: two sources may name the same one, one of them without its user."""
    found: dict[Holder, Holder] = {}
    for holder in holders:
        key = holder if holder.kind == "bare" else replace(holder, user="")
        if key not in found or not found[key].user:
            found[key] = holder
    return tuple(found.values())
