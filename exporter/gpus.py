"""From a snapshot and an inventory to the lines of the GPUs. Pure; shared by hardware and simulator."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from exporter import metrics as m
from exporter.errors import Reason
from exporter.metrics import Family
from exporter.processes import process_samples
from exporter.readings import NVML_SUCCESS, GpuReading, Identity, NvmlSnapshot, Sample
from exporter.verdict import Verdict

_EVIDENCE: Final = frozenset({"lost", "reset_required", "missing", "driver"})
"""Reasons that mean down; the others mean that nobody answered."""


def place_gpus(
    inventory: Sequence[Identity],
    snapshot: NvmlSnapshot | None,
    no_answer: Reason | None,
    hung_slots: Collection[str] = (),
) -> tuple[GpuReading, ...]:
    """One reading per GPU of the inventory.

    A GPU that did not answer gets a reason: its own if it was asked, else that of the indices that could not
    say who they are, if these are as many as the missing GPUs and agree. Otherwise it is `missing`, or `unknown` where
    one of those indices gave no evidence of down.

    Args:
        inventory: GPUs the node should have, those of the snapshot included.
        snapshot: the last cycle, None if it did not end.
        no_answer: why there is no snapshot.
        hung_slots: GPUs that were left out of the snapshot because a call on them hangs.
    """
    if snapshot is None:
        return tuple(GpuReading(identity, no_answer or "unknown") for identity in inventory)
    if snapshot.code != NVML_SUCCESS:
        return tuple(GpuReading(identity, "driver") for identity in inventory)
    asked = {reading.identity.uuid: reading for reading in snapshot.gpus}
    asked |= {gpu.uuid: GpuReading(gpu, "timeout") for gpu in inventory if gpu.slot in hung_slots}
    unasked = [identity for identity in inventory if identity.uuid not in asked]
    by_slot = {key: reason for key, reason in snapshot.unidentified if isinstance(key, str)}
    asked |= {gpu.uuid: GpuReading(gpu, _down(by_slot[gpu.slot])) for gpu in unasked if gpu.slot in by_slot}
    rest = sum(identity.uuid not in asked for identity in inventory)
    reason = _shared_reason([reason for key, reason in snapshot.unidentified if not isinstance(key, str)], rest)
    return tuple(
        asked[identity.uuid] if identity.uuid in asked else GpuReading(identity, reason) for identity in inventory
    )


def _down(reason: Reason) -> Reason:
    """A reason of `GPU_DOWN_REASON`; whatever else a call says is no evidence of down."""
    return reason if reason in _EVIDENCE or reason == "timeout" else "unknown"


def _shared_reason(reasons: Sequence[Reason], gpus: int) -> Reason:
    """Why GPUs do not answer that cannot be told apart: their one reason, else the weakest that may be true.

    Args:
        reasons: of the indices that could not say who they are.
        gpus: how many GPUs of the inventory did not say that they are there.
    """
    downs = {_down(reason) for reason in reasons}
    if len(downs) == 1 and len(reasons) == gpus:
        return next(iter(downs))
    return "missing" if downs <= _EVIDENCE else "unknown"


def gpu_samples(readings: Iterable[GpuReading]) -> Iterator[Sample]:
    """Identity, up and reason of every GPU; readings and missing fields of those that answered.

    A suspended GPU was not asked: it is neither up nor down, and that is said in place of `GPU_UP`.
    """
    for reading in readings:
        gpu = reading.identity
        key = (gpu.uuid, gpu.slot)
        asleep = reading.down == "suspended"
        if asleep:
            yield Sample(m.FIELD_UNAVAILABLE, (*key, m.GPU_UP.field, "suspended"), 1.0)
        else:
            yield Sample(m.GPU_UP, key, 1.0 if reading.down is None else 0.0)
        facts = (gpu.model, gpu.serial, gpu.vbios, gpu.driver, gpu.cuda, gpu.mig_mode, gpu.persistence)
        yield Sample(m.GPU_INFO, (*key, *facts, "" if gpu.index is None else str(gpu.index)), 1.0)
        if asleep:
            continue
        if reading.down is not None:
            yield Sample(m.GPU_DOWN_REASON, (*key, reading.down), 1.0)
            continue
        for value in reading.values:
            yield Sample(m.FAMILY_BY_NAME[value.family], (*key, *value.labels), value.value)
        yield from process_samples(key, reading.processes)
        for instance in reading.instances:
            who = (str(instance.gi), str(instance.ci), instance.uuid, instance.profile)
            yield Sample(m.MIG_INFO, (*key, *who), 1.0)
            for value in instance.values:
                yield Sample(m.FAMILY_BY_NAME[value.family], (*key, *value.labels), value.value)
        for field, why in reading.unavailable:
            yield Sample(m.FIELD_UNAVAILABLE, (*key, field, why), 1.0)


def count_samples(expected: int | None, visible: int | None) -> Iterator[Sample]:
    """How many GPUs there should be and how many answered; None is unknown and stays off the page."""
    pairs: tuple[tuple[Family, int | None], ...] = ((m.GPUS_EXPECTED, expected), (m.GPUS_VISIBLE, visible))
    for family, count in pairs:
        if count is not None:
            yield Sample(family, (), float(count))


def worker_samples(stuck_s: float, code: int) -> Iterator[Sample]:
    """State of the process that calls the driver; `stuck_s` is 0 while it is not overdue."""
    yield Sample(m.NVML_WORKER_STUCK, (), 1.0 if stuck_s > 0 else 0.0)
    yield Sample(m.NVML_WORKER_STUCK_SECONDS, (), stuck_s)
    yield Sample(m.NVML_RETURN_CODE, (), float(code))


def allocation_samples(gpus: Iterable[Identity], verdicts: Mapping[str, Verdict]) -> Iterator[Sample]:
    """Which GPUs are held, and by whom; what is not known is named, with the reason.

    Args:
        gpus: the GPUs of the node.
        verdicts: one a GPU, by UUID.
    """
    for gpu in gpus:
        key = (gpu.uuid, gpu.slot)
        verdict = verdicts[gpu.uuid]
        for holder in verdict.holders:
            whose = (holder.kind, holder.job_id, holder.user, holder.pod, holder.namespace, holder.container)
            yield Sample(m.GPU_WORKLOAD_INFO, (*key, *whose), 1.0)
        if verdict.allocated is not None:
            yield Sample(m.GPU_ALLOCATED, key, 1.0 if verdict.allocated else 0.0)
            continue
        for family in (m.GPU_ALLOCATED, m.GPU_WORKLOAD_INFO):
            yield Sample(m.FIELD_UNAVAILABLE, (*key, family.field, verdict.reason or "unknown"), 1.0)
