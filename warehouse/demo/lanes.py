"""What happens in each part of the fleet, one function a lane: no two lanes share a node, so none can clash.

Figures of how long things take are of the order of the causes' own pages; they are told, not measured.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from warehouse.demo.fleet import nodes_of
from warehouse.demo.record import FACILITY, MONITOR, SCHEDULER, TRAINER, Job, Record, hours, minutes
from warehouse.model.time import Window

_CHECKPOINT_EVERY_MS = minutes(90)
_CHECKPOINT_MS = minutes(2)
_COLD = "operations/cold_start"

_EMBED_NODES = nodes_of("b4")[:2]
_FIRST_SPARES = nodes_of("b4")[2:]


@dataclass(frozen=True, slots=True)
class _Stop:
    """Why an attempt of the large training job ended.

    Attributes:
        at_h: hour of the history, before jitter.
        cause: code of the catalogue.
        detail: for people.
        node: position of the failing node in the job, None where no node is to blame.
        repair_h: how long that node is down.
        hung_min: how long the job hung before it was killed.
    """

    at_h: float
    cause: str
    detail: str
    node: int | None = None
    repair_h: float = 0.0
    hung_min: float = 0.0


_STOPS = (
    _Stop(15, "accelerator/gpu_off_bus", "Xid 79 on one GPU, node drained", node=6, repair_h=6.5),
    _Stop(34, "fabric/switch_or_cable", "link flaps on one leaf, collectives wait", hung_min=38),
    _Stop(81, "accelerator/hbm_uncorrectable", "Xid 95, row remapping after a reset", node=2, repair_h=3.2),
    _Stop(99, "workload/framework_bug", "loader raises after an epoch's end"),
    _Stop(111, "host/dram", "uncorrectable memory error, DIMM replaced", node=9, repair_h=4.0),
)


def hall_power(record: Record, rng: random.Random, window: Window) -> Window:
    """Hall B loses power in the third night, and its storage takes longer to return than its lights."""
    cause = "facility/data_hall_power_loss"
    start_ms = window.start_ms + hours(57) + minutes(rng.uniform(0, 40))
    back_ms = start_ms + minutes(96)
    end_ms = back_ms + minutes(141)
    record.say(FACILITY, start_ms, back_ms, "hall:hall-b", "down", cause, detail="feed B lost, generator did not take")
    record.say(FACILITY, back_ms, end_ms, "hall:hall-b", "recovering", cause, detail="storage checks its file systems")
    return Window(start_ms, end_ms)


def pretrain(record: Record, rng: random.Random, window: Window, power: Window) -> None:
    """A training job on three racks, which swaps a broken node for a spare and goes on from its checkpoint."""
    job = Job("pretrain-70b", "foundation", "training", "pretraining, 96 GPUs (simulated)")
    nodes = list(nodes_of("b1", "b2", "b3"))
    spares = [(node, window.start_ms) for node in _FIRST_SPARES]
    attempt, start_ms, cause = 1, window.start_ms + minutes(rng.uniform(10, 25)), _COLD
    record.idle(window.start_ms, start_ms, nodes)
    for stop in sorted((*_STOPS, _power_stop(window, power)), key=lambda stop: stop.at_h):
        lost_power = stop.cause == "facility/data_hall_power_loss"
        jitter_ms = 0 if lost_power else minutes(rng.uniform(-30, 30))
        at_ms = power.start_ms if lost_power else window.start_ms + hours(stop.at_h) + jitter_ms
        begun_ms = _start_up(record, job, start_ms, nodes, cause, rng)
        saved_ms = _checkpoints(record, job, begun_ms, at_ms, nodes)
        record.say(TRAINER, saved_ms, at_ms, nodes, "lost_work", stop.cause, detail="not yet saved", job=job.id)
        end_ms = at_ms + minutes(stop.hung_min)
        if stop.hung_min:
            record.say(TRAINER, at_ms, end_ms, nodes, "hung", stop.cause, detail=stop.detail, job=job.id)
        record.hold(job, attempt, start_ms, end_ms, nodes)
        if stop.node is not None:
            broken, (spare, free_ms) = nodes[stop.node], spares.pop(0)
            mended_ms = end_ms + hours(stop.repair_h)
            record.say(MONITOR, at_ms, mended_ms, [broken], "down", stop.cause, detail=stop.detail, job=job.id)
            record.say(SCHEDULER, free_ms, end_ms, [spare], "spare", detail="hot spare")
            spares.append((broken, mended_ms))
            nodes[stop.node] = spare
        attempt, cause = attempt + 1, stop.cause
        start_ms = power.end_ms if lost_power else end_ms
    begun_ms = _start_up(record, job, start_ms, nodes, cause, rng)
    _checkpoints(record, job, begun_ms, window.end_ms, nodes)
    record.hold(job, attempt, start_ms, None, nodes)
    for node, free_ms in spares:
        record.say(SCHEDULER, free_ms, None, [node], "spare", detail="hot spare")


def _power_stop(window: Window, power: Window) -> _Stop:
    at_h = (power.start_ms - window.start_ms) / hours(1)
    return _Stop(at_h, "facility/data_hall_power_loss", "the hall lost power")


def _start_up(record: Record, job: Job, start_ms: int, nodes: Sequence[str], cause: str, rng: random.Random) -> int:
    """Says how long a start took, and why there was one; gives its end."""
    end_ms = start_ms + minutes(rng.uniform(11, 19))
    detail = "loads the model" if cause == _COLD else "restarts from the last checkpoint"
    record.say(TRAINER, start_ms, end_ms, nodes, "startup", cause, detail=detail, job=job.id)
    return end_ms


def _checkpoints(record: Record, job: Job, begun_ms: int, end_ms: int, nodes: Sequence[str]) -> int:
    """Says when the job saved; gives the end of the last save, or the begin where it never did."""
    saved_ms = begun_ms
    while saved_ms + _CHECKPOINT_EVERY_MS + _CHECKPOINT_MS < end_ms:
        start_ms = saved_ms + _CHECKPOINT_EVERY_MS
        saved_ms = start_ms + _CHECKPOINT_MS
        record.say(TRAINER, start_ms, saved_ms, nodes, "checkpoint", detail="synchronous save", job=job.id)
    return saved_ms


def finetune(record: Record, rng: random.Random, window: Window) -> None:
    """Training jobs one after the other on two racks: heat, slow reads, a crash, and a planned window on one rack."""
    nodes = nodes_of("a1", "a2")
    closed = Window(window.start_ms + hours(62), window.start_ms + hours(65))
    driver = "driver and firmware upgrade, announced a week ahead"
    record.say(FACILITY, closed.start_ms, closed.end_ms, "rack:a1", "maintenance", detail=driver)
    free_ms, number = window.start_ms, 0
    while True:
        start_ms = free_ms + minutes(rng.uniform(15, 70))
        end_ms = start_ms + hours(rng.uniform(9, 14))
        number += 1
        if start_ms < closed.end_ms and end_ms > closed.start_ms - hours(3):
            # What cannot end before the window waits for it; what runs is drained in time.
            start_ms, end_ms = (
                (start_ms, closed.start_ms)
                if start_ms < closed.start_ms - hours(5)
                else (closed.end_ms + minutes(10), end_ms + hours(4))
            )
        record.idle(free_ms, start_ms, nodes)
        job = Job(f"finetune-{number:02d}", "applied", "training", "fine-tuning, 64 GPUs (simulated)")
        begun_ms = _start_up(record, job, start_ms, nodes, _COLD, rng)
        if end_ms > window.end_ms - hours(4):
            record.hold(job, 1, start_ms, None, nodes)
            return
        if number == 5:
            _crash(record, job, start_ms, begun_ms, end_ms, nodes, rng)
        else:
            record.hold(job, 1, start_ms, end_ms, nodes)
            _checkpoints(record, job, begun_ms, end_ms, nodes)
        _slow_down(record, job, number, begun_ms, end_ms, nodes)
        free_ms = end_ms


def _slow_down(record: Record, job: Job, number: int, begun_ms: int, end_ms: int, nodes: Sequence[str]) -> None:
    """What the second and the fourth job suffered."""
    if number == 2:
        hot = "inlet air 9 K over plan, clocks capped"
        cause = "cooling/gpu_thermal"
        span = (begun_ms + hours(1), end_ms - minutes(50))
        record.say(MONITOR, *span, ["a2-n3"], "degraded", cause, detail=hot, lost="0.3", job=job.id)
    if number == 4:
        slow = "data loader waits for reads"
        span = (begun_ms + hours(2), begun_ms + hours(4.2))
        record.say(TRAINER, *span, nodes, "starved", "storage/slow_read", detail=slow, lost="0.45", job=job.id)


def _crash(
    record: Record, job: Job, start_ms: int, begun_ms: int, end_ms: int, nodes: Sequence[str], rng: random.Random
) -> None:
    """A job that dies of an illegal memory access and does its last hour once more."""
    cause = "workload/cuda_exception"
    at_ms = begun_ms + (end_ms - begun_ms) // 2000 * 1000
    saved_ms = _checkpoints(record, job, begun_ms, at_ms, nodes)
    record.say(TRAINER, saved_ms, at_ms, nodes, "lost_work", cause, detail="Xid 31 and a core dump", job=job.id)
    record.hold(job, 1, start_ms, at_ms, nodes)
    again_ms = _start_up(record, job, at_ms, nodes, cause, rng)
    _checkpoints(record, job, again_ms, end_ms, nodes)
    record.hold(job, 2, at_ms, end_ms, nodes)


def batch(record: Record, rng: random.Random, window: Window) -> None:
    """Short jobs on one rack with time between them: a panic, a forgotten notebook, a hole in the monitoring."""
    nodes = nodes_of("a3")
    free_ms, number = window.start_ms, 0
    while True:
        start_ms = free_ms + minutes(rng.uniform(25, 150))
        end_ms = start_ms + hours(rng.uniform(2.5, 6.5))
        number += 1
        if end_ms > window.end_ms - hours(1):
            record.idle(free_ms, None, nodes)
            return
        hole_ms = min(start_ms, free_ms + minutes(22)) if number == 7 else free_ms
        if hole_ms > free_ms:
            gap = ("unknown", "platform/monitoring_gap")
            record.say(MONITOR, free_ms, hole_ms, nodes, *gap, detail="no samples of these nodes")
        record.idle(hole_ms, start_ms, nodes)
        if number == 4:
            job = Job("notebook-17", "research", "other", "interactive session (simulated)")
            left_ms = start_ms + minutes(40)
            cause = "workload/idle_allocation"
            detail = "no kernel ran since the session was left"
            record.say(MONITOR, left_ms, end_ms, nodes, "idle_allocated", cause, detail=detail, job=job.id)
            record.hold(job, 1, start_ms, end_ms, nodes)
        else:
            job = Job(f"eval-{number:02d}", "research", "other", "evaluation, 32 GPUs (simulated)")
            if number == 9:
                _panic(record, job, start_ms, end_ms, nodes)
            else:
                record.hold(job, 1, start_ms, end_ms, nodes)
        free_ms = end_ms


def _panic(record: Record, job: Job, start_ms: int, end_ms: int, nodes: Sequence[str]) -> None:
    """One node's kernel panics; its job waits for it, does half an hour once more, and ends as planned."""
    cause = "host/kernel_panic_or_reboot"
    at_ms = start_ms + minutes(64)
    back_ms = at_ms + minutes(43)
    others = [node for node in nodes if node != nodes[1]]
    record.say(TRAINER, at_ms - minutes(31), at_ms, nodes, "lost_work", cause, detail="no save since", job=job.id)
    record.say(MONITOR, at_ms, back_ms, [nodes[1]], "down", cause, detail="kernel panic, rebooted", job=job.id)
    record.say(SCHEDULER, at_ms, back_ms, others, "idle_blocked", cause, detail="waits for one node", job=job.id)
    record.hold(job, 1, start_ms, at_ms, nodes)
    record.hold(job, 2, back_ms, end_ms, nodes)


def serving(record: Record, rng: random.Random, window: Window, power: Window) -> None:
    """Two services that run all the time; one shares the hall that lost power."""
    chat, chat_nodes = Job("serve-chat", "assistants", "inference", "chat replicas (simulated)"), nodes_of("a4")
    record.say(SCHEDULER, window.start_ms, window.start_ms + minutes(7), chat_nodes, "startup", _COLD, job=chat.id)
    record.hold(chat, 1, window.start_ms, None, chat_nodes)
    gone_ms = window.start_ms + hours(27) + minutes(rng.uniform(0, 50))
    silent = "two witnesses silent, power-cycled"
    span = (gone_ms, gone_ms + minutes(27))
    record.say(MONITOR, *span, ["a4-n2"], "down", "host/node_unreachable", detail=silent, job=chat.id)
    dark_ms = window.start_ms + hours(88) + minutes(rng.uniform(0, 50))
    span = (dark_ms, dark_ms + hours(8.6))
    record.say(MONITOR, *span, ["a4-n4"], "down", "power/psu", detail="supply 2 of 6 dead, swapped", job=chat.id)
    full_ms = window.start_ms + hours(72) + minutes(rng.uniform(0, 50))
    late = "answers later than their limit"
    cause = "serving/queue_collapse"
    span = (full_ms, full_ms + minutes(24))
    record.say(MONITOR, *span, chat_nodes, "unusable", cause, detail=late, lost="0.6", job=chat.id)
    embed = Job("serve-embed", "search", "inference", "embedding replicas (simulated)")
    record.hold(embed, 1, window.start_ms, power.start_ms, _EMBED_NODES)
    record.hold(embed, 2, power.end_ms, None, _EMBED_NODES)
    span = (power.end_ms, power.end_ms + minutes(6))
    cause = "facility/data_hall_power_loss"
    record.say(SCHEDULER, *span, _EMBED_NODES, "startup", cause, detail="replicas load their weights", job=embed.id)
