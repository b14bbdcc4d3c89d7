"""The input: one month of 10,000 GPUs, 25,000 claims and the tenure, every edge on a whole minute.

Shape (seeded, stated in docs/benchmarks.md): 20,000 faults of single GPUs of up to two hours, 250 job kills of 512 to
4,096 GPUs in four phases (lost work, hang, outage, restart), 4,000 allocations of 8 to 256 GPUs of up to two days.
Whole minutes make the per-minute baseline exact, so that both sides must give the same totals.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from warehouse.model.entry import Claim
from warehouse.model.state import State
from warehouse.model.time import MS_PER_DAY, MS_PER_MINUTE, Window, parse_instant

START_MS = parse_instant("2026-10-01")
DAYS = 30
WINDOW = Window(START_MS, START_MS + DAYS * MS_PER_DAY)
MINUTES = DAYS * 24 * 60
SEED = 20261001


def claims(gpus: int) -> list[Claim]:
    """Gives the claims, the tenure first."""
    rng = random.Random(SEED)
    floor = Claim(((0, gpus),), WINDOW.start_ms, WINDOW.end_ms, State.UNKNOWN, "0", "tenure", floor=True)
    return [floor, *_faults(rng, gpus), *_kills(rng, gpus), *_allocations(rng, gpus)]


def _claim(slot: int, width: int, minute: int, length: int, state: State, key: str) -> Iterator[Claim]:
    end = min(minute + length, MINUTES)
    if minute < end:
        start_ms = START_MS + minute * MS_PER_MINUTE
        yield Claim(((slot, slot + width),), start_ms, START_MS + end * MS_PER_MINUTE, state, key, "bench")


def _faults(rng: random.Random, gpus: int) -> Iterator[Claim]:
    for number in range(20_000):
        state = rng.choice([State.DOWN, State.DEGRADED, State.RECOVERING])
        yield from _claim(rng.randrange(gpus), 1, rng.randrange(MINUTES), rng.randint(1, 120), state, f"f{number}")


def _kills(rng: random.Random, gpus: int) -> Iterator[Claim]:
    phases = ((State.LOST_WORK, 30), (State.HUNG, 10), (State.DOWN, 5), (State.STARTUP, 15))
    for number in range(250):
        width = rng.choice([512, 1_024, 2_048, 4_096])
        slot = rng.randrange(0, gpus - width, 8)
        minute = rng.randrange(MINUTES)
        for state, length in phases:
            yield from _claim(slot, width, minute, length, state, f"k{number}-{state}")
            minute += length


def _allocations(rng: random.Random, gpus: int) -> Iterator[Claim]:
    for number in range(4_000):
        width = rng.choice([8, 64, 256])
        slot = rng.randrange(0, gpus - width, 8)
        length = rng.randint(60, 2 * 24 * 60)
        yield from _claim(slot, width, rng.randrange(MINUTES), length, State.PRODUCTIVE, f"a{number}")
