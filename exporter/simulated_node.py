"""What the kernel of a simulated node says about waiting: pressure, blocked threads, NFS, disk.

A pure function of time, like the GPUs. The story of a hang: on one node of the job the loaders of data wait for a file
server that does not answer, and every other rank waits for theirs in the collective. So that node alone shows blocked
threads and I/O pressure, and its NFS counters stand still; what waited is counted when the hang ends, as the kernel
does. A lost GPU holds one thread in the driver. Rates are plausible, not measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from exporter.collectors.disk import disk_samples
from exporter.collectors.nfs import Operation, nfs_samples
from exporter.collectors.proc import Blocked, blocked_samples
from exporter.collectors.psi import RESOURCES, job_psi_samples, psi_samples
from exporter.readings import Sample
from exporter.simulated_gpu import GpuTimeline, Mode

MOUNT: Final = "/data"
DISK: Final = "nvme0n1"
# Operations a second and a GPU of a job, and milliseconds of each; a node without a job does a hundredth.
_NFS_RATES: Final = {"READ": (24.0, 3.1), "WRITE": (1.5, 6.4), "COMMIT": (0.2, 11.0), "GETATTR": (6.0, 0.6)}
_MAJOR_TIMEOUT_S: Final = 180.0  # timeo=600,retrans=2: 60 s and two steps of 60 s (man 5 nfs)
_WAVE_S: Final = 11.0
_JOB_SHARE: Final = 0.95
_HUNG_SHARE: Final = 0.97


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """What a node does.

    Attributes:
        job: id of the job that runs on it, None if it is free.
        timelines: its GPUs.
        stall_rate: seconds a second in which its tasks wait for I/O while the job runs.
        loads_hang: whether it is the node whose loaders wait in a hang of the job.
    """

    job: str | None
    timelines: Sequence[GpuTimeline]
    stall_rate: float
    loads_hang: bool


def spent_s(timeline: GpuTimeline, mode: Mode, at_s: float, ended: bool = False) -> float:
    """Time in a mode from the start to `at_s`; with `ended`, only of segments that are over by then."""
    period_s = timeline.repeat_s
    count, rest_s = (0, at_s) if period_s is None else divmod(at_s, period_s)
    spans = [(segment.start_s, segment.end_s) for segment in timeline.segments if segment.mode == mode]
    whole_s = sum(end_s - start_s for start_s, end_s in spans) if count else 0.0
    begun = [(start_s, end_s) for start_s, end_s in spans if start_s < rest_s and (end_s <= rest_s or not ended)]
    return count * whole_s + sum(min(end_s, rest_s) - start_s for start_s, end_s in begun)


def node_samples(load: NodeLoad, boot_s: float, at_s: float) -> Iterator[Sample]:
    """Every family of the node itself that a real page has.

    Law: counters never fall while the node is up, and start at 0 with it.

    Args:
        load: the node.
        boot_s: when it came up, in seconds since the start.
        at_s: now, likewise.
    """
    stall_us = _stall_us(load, boot_s, at_s)
    yield from psi_samples(stall_us)
    if load.job is not None:
        share = {(load.job, *key): float(round(_JOB_SHARE * us)) for key, us in stall_us.items()}
        yield from job_psi_samples(share)
    yield from blocked_samples(_blocked(load, at_s), at_s)
    for row in nfs_samples(MOUNT, _operations(load, boot_s, at_s)):
        assert isinstance(row, Sample)
        yield row
    yield from _disk(load, at_s - boot_s)


def _hung_s(load: NodeLoad, boot_s: float, at_s: float, ended: bool = False) -> float:
    """How long the loaders of this node have waited since it came up."""
    if not load.loads_hang:
        return 0.0
    return max(
        spent_s(timeline, "hang", at_s, ended) - spent_s(timeline, "hang", boot_s, ended) for timeline in load.timelines
    )


def _stall_us(load: NodeLoad, boot_s: float, at_s: float) -> dict[tuple[str, str], float]:
    rate = 1e-4 if load.job is None else load.stall_rate
    up_s = at_s - boot_s
    shape_s = up_s + 0.5 * _WAVE_S * math.sin(up_s / _WAVE_S)  # its slope is never below a half
    found: dict[tuple[str, str], float] = {}
    for weight, resource in zip((0.5, 1.0, 0.05), RESOURCES, strict=True):
        some_s = weight * rate * shape_s
        full_s = 0.0 if resource == "cpu" else 0.6 * some_s
        if resource == "io":
            hung_s = _HUNG_SHARE * _hung_s(load, boot_s, at_s)
            some_s, full_s = some_s + hung_s, full_s + hung_s
        found[resource, "some"] = float(round(some_s * 1e6))
        found[resource, "full"] = float(round(full_s * 1e6))
    return found


def _blocked(load: NodeLoad, at_s: float) -> Iterator[Blocked]:
    """One loader a GPU in a hang, one thread in the driver for each lost GPU, each since its fault began."""
    for timeline in load.timelines:
        segment = timeline.segment(at_s)
        period_s = timeline.repeat_s
        since_s = segment.start_s if period_s is None else at_s - at_s % period_s + segment.start_s
        if segment.mode == "gpu_lost":
            yield Blocked("nvidia", 0, since_s)
        elif segment.mode == "hang" and load.loads_hang:
            yield Blocked("nfs", 0, since_s)


def _operations(load: NodeLoad, boot_s: float, at_s: float) -> dict[str, Operation]:
    gpus = len(load.timelines) * (1.0 if load.job is not None else 0.01)
    working_s = at_s - boot_s - _hung_s(load, boot_s, at_s)
    waited_s = _hung_s(load, boot_s, at_s, ended=True)
    found: dict[str, Operation] = {}
    for name, (rate, each_ms) in _NFS_RATES.items():
        ops = int(rate * gpus * working_s)
        waits = len(load.timelines) if name == "READ" else 0
        timeouts = waits * int(waited_s // _MAJOR_TIMEOUT_S)
        found[name] = Operation(ops, ops + timeouts, timeouts, int(ops * each_ms + waits * waited_s * 1e3))
    return found


def _disk(load: NodeLoad, up_s: float) -> Iterator[Sample]:
    busy = 0.06 if load.job is not None else 0.002
    in_flight = round(1.5 + 1.5 * math.sin(up_s / 7.0)) if load.job is not None else 0
    read_ms, write_ms, busy_ms = (int(share * busy * up_s * 1e3) for share in (0.4, 2.2, 1.0))
    yield from disk_samples(DISK, read_ms, write_ms, busy_ms, in_flight)
