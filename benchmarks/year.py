"""The input: a training farm of 100,352 GPUs over one year, as the statements that a site's importers would give.

Generator (seeded, stated in docs/benchmarks.md):

- 196 pods of 64 nodes of 8 GPUs. Jobs fill a pod as buddies: a block of nodes is taken whole with the chance of its
  size or splits into halves for one to three days. So six tenths of the GPU time is in jobs of 256 GPUs and more
  (Meta's RSC-1: 66 %, arXiv:2410.21680).
- Lengths are lognormal, median 16 h, 24 h from 256 GPUs on, at most 7 days (RSC's limit); up to three hours of nothing
  between, so that nine tenths of the time is held.
- Node faults at RSC-1's rate of 6.5 per 1,000 node-days, lognormal, median 4 h; each takes up to an hour of the whole
  job's work with it. Episodes of one throttled GPU, one per 1,000 GPU-days, median 20 min, in loss steps of 5 %.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

from warehouse.model.evidence import Allocation, Evidence
from warehouse.model.fleet import NodeSpec
from warehouse.model.state import State
from warehouse.model.statement import Statement
from warehouse.model.time import MS_PER_DAY, MS_PER_HOUR, MS_PER_MINUTE, parse_instant

START_MS = parse_instant("2025-01-01")
POD_NODES = 64
GPUS = 8
PRICE = Decimal("2.35")
SEED = 20261130

# The chance that a block of so many nodes is one job.
WHOLE = {64: 0.42, 32: 0.45, 16: 0.50, 8: 0.55, 4: 0.65, 2: 0.75, 1: 1.0}
LARGE_NODES = 32
MOST_MS = 7 * MS_PER_DAY
NODE_FAULTS_PER_DAY = 0.0065
GPU_EPISODES_PER_DAY = 0.001


class Job(NamedTuple):
    """A run of nodes over a span."""

    node: int
    nodes: int
    start_ms: int
    end_ms: int


def fleet(pods: int) -> list[NodeSpec]:
    """Gives the nodes, eight to a rack; slot = node x 8 + GPU."""
    return [
        NodeSpec("farm", f"hall{n // 2048}", f"rack{n // 8:05}", f"n{n:06}", GPUS, "H100", START_MS)
        for n in range(pods * POD_NODES)
    ]


def statements(pods: int, days: int) -> Iterator[list[Statement]]:
    """Yields what was said, one list per 30 days, by the day on which it began."""
    end_ms = START_MS + days * MS_PER_DAY
    months: list[list[Statement]] = [[] for _ in range(-(-days // 30))]
    for pod in range(pods):
        rng = random.Random(SEED * 1_000 + pod)
        jobs = list(_jobs(rng, pod * POD_NODES, POD_NODES, START_MS, end_ms))
        for number, job in enumerate(jobs):
            _add(months, _allocation(f"{pod}-{number}", job))
        for said in _faults(rng, pod, jobs, end_ms):
            _add(months, said)
    yield from months


def _add(months: list[list[Statement]], said: Allocation | Evidence) -> None:
    months[(said.start_ms - START_MS) // (30 * MS_PER_DAY)].append(Statement("generated", said))


def _jobs(rng: random.Random, node: int, nodes: int, start_ms: int, end_ms: int) -> Iterator[Job]:
    at = start_ms
    while at < end_ms:
        if rng.random() < WHOLE[nodes]:
            median_h = 24 if nodes >= LARGE_NODES else 16
            length = min(int(rng.lognormvariate(0, 0.9) * median_h * MS_PER_HOUR), MOST_MS)
            yield Job(node, nodes, at, min(at + length, end_ms))
            at += length + rng.randrange(1, 181) * MS_PER_MINUTE
        else:
            until = min(at + rng.randrange(24, 73) * MS_PER_HOUR, end_ms)
            yield from _jobs(rng, node, nodes // 2, at, until)
            yield from _jobs(rng, node + nodes // 2, nodes // 2, at, until)
            at = until


def _slots(node: int, nodes: int) -> tuple[tuple[int, int], ...]:
    return ((node * GPUS, (node + nodes) * GPUS),)


def _allocation(name: str, job: Job) -> Allocation:
    tenant = f"team-{job.node // POD_NODES % 20}"
    slots = _slots(job.node, job.nodes)
    return Allocation(name, 0, tenant, "training", job.start_ms, job.end_ms, f"n{job.node:06}", slots)


def _faults(rng: random.Random, pod: int, jobs: list[Job], end_ms: int) -> Iterator[Evidence]:
    by_start = sorted(jobs, key=lambda job: job.start_ms)
    starts = [job.start_ms for job in by_start]
    for number, at in enumerate(_poisson(rng, POD_NODES * NODE_FAULTS_PER_DAY, end_ms)):
        node = pod * POD_NODES + rng.randrange(POD_NODES)
        until = min(at + int(rng.lognormvariate(0, 1.2) * 4 * MS_PER_HOUR) + MS_PER_MINUTE, end_ms)
        key = f"fault-{pod}-{number}"
        yield _evidence(key, at, until, node, 1, State.DOWN, "accelerator/gpu_off_bus")
        hit = next((j for j in reversed(by_start[: bisect_right(starts, at)]) if _covers(j, node, at)), None)
        if hit is not None:
            lost_from = max(hit.start_ms, at - rng.randrange(1, 61) * MS_PER_MINUTE)
            if lost_from < at:
                yield _evidence(
                    f"{key}-lost", lost_from, at, hit.node, hit.nodes, State.LOST_WORK, "accelerator/gpu_off_bus"
                )
    for number, at in enumerate(_poisson(rng, POD_NODES * GPUS * GPU_EPISODES_PER_DAY, end_ms)):
        slot = (pod * POD_NODES + rng.randrange(POD_NODES)) * GPUS + rng.randrange(GPUS)
        until = min(at + int(rng.lognormvariate(0, 1.0) * 20 * MS_PER_MINUTE) + MS_PER_MINUTE, end_ms)
        yield Evidence(
            "bench", f"hot-{pod}-{number}", at, until, "gpu", ((slot, slot + 1),), State.DEGRADED,
            "cooling/gpu_thermal", rng.randrange(1, 20) * 50_000,
        )  # fmt: skip


def _covers(job: Job, node: int, at_ms: int) -> bool:
    return job.node <= node < job.node + job.nodes and job.start_ms <= at_ms < job.end_ms


def _poisson(rng: random.Random, per_day: float, end_ms: int) -> Iterator[int]:
    at = START_MS
    while (at := at + int(rng.expovariate(per_day) * MS_PER_DAY) + 1) < end_ms:
        yield at


def _evidence(key: str, at: int, until: int, node: int, nodes: int, state: State, cause: str) -> Evidence:
    return Evidence("bench", key, at, until, f"n{node:06}", _slots(node, nodes), state, cause)
