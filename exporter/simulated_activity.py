"""How much of a simulated GPU works, and what runs on it. Plausible numbers for a training job, not measured.

A collective that hangs keeps its kernel on the multiprocessors, which wait: they are active, while the tensor
pipes and the memory rest. That difference is what tells a hang from work.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from exporter import metrics as m
from exporter.readings import Process, Value
from exporter.simulated_gpu import GpuTimeline, Mode


@dataclass(frozen=True, slots=True)
class _Shares:
    """Means of a mode, and by how much of it each swings."""

    engine: float
    sm: float
    occupancy: float
    tensor: float
    dram: float
    swing: float


_TRAINING: Final = _Shares(0.98, 0.90, 0.36, 0.58, 0.46, 0.08)
_SHARES: Final[dict[Mode, _Shares]] = {
    "job": _TRAINING,
    "thermal": _TRAINING,
    "power_cap": _TRAINING,
    "hang": _Shares(1.0, 0.97, 0.09, 0.0, 0.002, 0.02),
    "idle": _Shares(0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
}


def activity_values(timeline: GpuTimeline, at_s: float) -> tuple[Value, ...]:
    """What the hardware counters of a GPU that answers give, renewed once a second."""
    shares = _SHARES[timeline.mode(at_s)]
    rng = random.Random(f"{timeline.phases[0]}/{int(at_s)}/activity")
    swing = 1.0 + shares.swing * rng.uniform(-1.0, 1.0)  # one for all: the step of a job moves them together
    ratios = (
        (m.GPU_SM_ACTIVE, shares.sm),
        (m.GPU_SM_OCCUPANCY, shares.occupancy),
        (m.GPU_TENSOR_ACTIVE, shares.tensor),
        (m.GPU_DRAM_ACTIVE, shares.dram),
        (m.GPU_ENGINE_ACTIVE, shares.engine),
    )
    return tuple(Value(family.name, (), round(min(1.0, mean * swing), 4)) for family, mean in ratios)


def running(timeline: GpuTimeline, index: int) -> tuple[Process, ...]:
    """One process a GPU where a job holds it; it does not end with a fault, as a hung one does not."""
    return (Process(pid=4_000 + index),) if timeline.allocated else ()
