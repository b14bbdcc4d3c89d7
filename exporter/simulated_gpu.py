"""One simulated GPU: its modes over time and what it reads in each.

Power is a sum of sines around a level per mode, so that energy is its exact integral, whenever it is asked.
Levels are of the order of an H100 SXM board (700 W limit, 81,559 MiB); they are plausible, not measured.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from exporter import metrics as m
from exporter.metrics import Family
from exporter.readings import Value
from exporter.scenario import FAULT_KINDS, FaultKind, Scenario
from exporter.simulated_board import board_values

Mode = FaultKind | Literal["job", "idle"]

DRIVER: Final = "580.95.05"
LIMIT_WATTS: Final = 700.0
CAPPED_LIMIT_WATTS: Final = 400.0
_MIB: Final = 2**20
_TOTAL_BYTES: Final = 81_559 * _MIB
_RESERVED_BYTES: Final = 551 * _MIB
_AMBIENT_CELSIUS: Final = 27.0
_CELSIUS_PER_WATT: Final = 0.054
_THERMAL_RISE_CELSIUS: Final = 62.0
_LAG_S: Final = 45.0


@dataclass(frozen=True, slots=True)
class _Level:
    """What a mode reads: mean and swing of power, utilization, SM clock."""

    watts: float
    swing_watts: float
    utilization: float
    utilization_swing: float
    sm_hertz: float


# A hung collective keeps a kernel spinning: utilization 1.0, power at about a quarter of the limit.
_LEVELS: Final[dict[Mode, _Level]] = {
    "job": _Level(0.86 * LIMIT_WATTS, 42.0, 0.97, 0.03, 1_980e6),
    "idle": _Level(75.0, 3.0, 0.0, 0.0, 345e6),
    "hang": _Level(0.25 * LIMIT_WATTS, 4.0, 1.0, 0.0, 1_980e6),
    "thermal": _Level(0.62 * LIMIT_WATTS, 14.0, 0.98, 0.02, 1_185e6),
    "power_cap": _Level(0.97 * CAPPED_LIMIT_WATTS, 4.0, 0.98, 0.02, 1_410e6),
    "gpu_lost": _Level(0.0, 0.0, 0.0, 0.0, 0.0),
    "node_down": _Level(0.0, 0.0, 0.0, 0.0, 0.0),
}
_PERIODS_S: Final = ((7.3, 0.45), (31.0, 0.35), (211.0, 0.2))
"""Periods of the sines and their weights, which sum to 1."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A mode over [start_s, end_s), from the start of the period."""

    start_s: float
    end_s: float
    mode: Mode


class GpuTimeline:
    """What happens to one GPU, for ever.

    Laws: segments tile the period; energy between two times is the integral of power between them.

    Args:
        scenario: the fleet.
        node: node of the GPU.
        index: its index in the node.
        allocated: whether a job holds it.
        rng: seeded for this GPU alone.
    """

    def __init__(self, scenario: Scenario, node: str, index: int, allocated: bool, rng: random.Random) -> None:
        self.repeat_s = scenario.repeat_s
        self.allocated = allocated
        self.segments = _tile(scenario, node, index, "job" if allocated else "idle")
        self.spread = rng.uniform(0.98, 1.02)
        self.ambient_celsius = _AMBIENT_CELSIUS + rng.uniform(-2.0, 2.0)
        self.phases = tuple(rng.uniform(0.0, 2 * math.pi) for _ in _PERIODS_S)
        self.energy_before_joules = rng.uniform(1e9, 5e9)
        self.corrected_before = rng.randrange(0, 40)
        self.replays = rng.randrange(0, 3)
        self._period_joules: list[float] = [0.0]

    def _split(self, at_s: float) -> tuple[int, float]:
        """Number of whole periods before `at_s`, and the rest."""
        if self.repeat_s is None:
            return 0, at_s
        count = int(at_s // self.repeat_s)
        return count, at_s - count * self.repeat_s

    def segment(self, at_s: float) -> Segment:
        """The segment that holds at a time."""
        _, rest_s = self._split(at_s)
        return next(s for s in reversed(self.segments) if s.start_s <= rest_s)

    def mode(self, at_s: float) -> Mode:
        """The mode at a time."""
        return self.segment(at_s).mode

    def onsets(self, mode: Mode, from_s: float, to_s: float) -> Iterator[float]:
        """Begin of every segment of `mode` in [from_s, to_s], in order."""
        for count in range(self._split(from_s)[0], self._split(to_s)[0] + 1):
            base_s = count * (self.repeat_s or 0.0)
            for segment in self.segments:
                if segment.mode == mode and from_s <= base_s + segment.start_s <= to_s:
                    yield base_s + segment.start_s

    def resets(self, mode: Mode, at_s: float) -> tuple[int, float]:
        """How often a segment of `mode` has ended by `at_s`, and when last (0.0 if never)."""
        count, rest_s = self._split(at_s)
        ends_s = [segment.end_s for segment in self.segments if segment.mode == mode]
        done_s = [end_s for end_s in ends_s if end_s <= rest_s]
        number = count * len(ends_s) + len(done_s)
        if done_s:
            return number, count * (self.repeat_s or 0.0) + max(done_s)
        if count and ends_s:
            return number, (count - 1) * (self.repeat_s or 0.0) + max(ends_s)
        return number, 0.0

    def loaded_s(self, at_s: float) -> float:
        """When the counters of the driver last began at 0: when the GPU or the node came back; 0.0 if never."""
        return max(self.resets("gpu_lost", at_s)[1], self.resets("node_down", at_s)[1])

    def _time_in_s(self, mode: Mode, at_s: float) -> float:
        count, rest_s = self._split(max(0.0, at_s))
        spans_s = [(s.start_s, s.end_s) for s in self.segments if s.mode == mode]
        whole_s = count * sum(end_s - start_s for start_s, end_s in spans_s) if count else 0.0
        return whole_s + sum(max(0.0, min(end_s, rest_s) - start_s) for start_s, end_s in spans_s)

    def loaded_in_s(self, mode: Mode, at_s: float) -> float:
        """Time spent in a mode since the counters last began at 0."""
        return self._time_in_s(mode, at_s) - self._time_in_s(mode, self.loaded_s(at_s))

    def power_watts(self, at_s: float) -> float:
        """Board power at a time."""
        level = _LEVELS[self.mode(at_s)]
        swing = sum(
            weight * math.sin(2 * math.pi * at_s / period_s + phase)
            for (period_s, weight), phase in zip(_PERIODS_S, self.phases, strict=True)
        )
        return self.spread * (level.watts + level.swing_watts * swing)

    def _integral(self, mode: Mode, from_s: float, to_s: float) -> float:
        level = _LEVELS[mode]
        swing_s = sum(
            weight
            * (period_s / (2 * math.pi))
            * (math.cos(2 * math.pi * from_s / period_s + phase) - math.cos(2 * math.pi * to_s / period_s + phase))
            for (period_s, weight), phase in zip(_PERIODS_S, self.phases, strict=True)
        )
        return self.spread * (level.watts * (to_s - from_s) + level.swing_watts * swing_s)

    def _within(self, count: int, rest_s: float) -> float:
        """Energy of period `count` up to `rest_s` after its begin."""
        base_s = count * (self.repeat_s or 0.0)
        return sum(
            self._integral(s.mode, base_s + s.start_s, base_s + min(s.end_s, rest_s))
            for s in self.segments
            if s.start_s < rest_s
        )

    def work_joules(self, at_s: float) -> float:
        """Integral of power from the start to `at_s`; periods are summed once and remembered."""
        count, rest_s = self._split(max(0.0, at_s))
        known = self._period_joules
        if len(known) <= count:
            known = list(known)
            while len(known) <= count:
                last = len(known) - 1
                known.append(known[last] + self._within(last, self.repeat_s or 0.0))
            self._period_joules = known  # replaced whole: another thread sees the old list or the new one
        return known[count] + self._within(count, rest_s)

    def energy_joules(self, at_s: float) -> float:
        """The board's counter: it starts at 0 when the GPU or the node comes back."""
        back_s = self.loaded_s(at_s)
        before = 0.0 if back_s else self.energy_before_joules
        return before + self.work_joules(at_s) - self.work_joules(back_s)

    def temperature_celsius(self, at_s: float) -> float:
        """Follows the mean power of the last `_LAG_S`; a thermal fault adds its rise within that time."""
        from_s = max(0.0, at_s - _LAG_S)
        span_s = at_s - from_s
        mean_watts = (self.work_joules(at_s) - self.work_joules(from_s)) / span_s if span_s > 1.0 else 75.0
        segment = self.segment(at_s)
        rise = 0.0
        if segment.mode == "thermal":
            inside_s = self._split(at_s)[1] - segment.start_s
            rise = (_THERMAL_RISE_CELSIUS - _CELSIUS_PER_WATT * mean_watts) * min(1.0, inside_s / _LAG_S)
        return self.ambient_celsius + _CELSIUS_PER_WATT * mean_watts + max(0.0, rise)


def _tile(scenario: Scenario, node: str, index: int, rest: Mode) -> tuple[Segment, ...]:
    """Segments over one period: the strongest fault at each time, else `rest`; equal neighbours joined."""
    faults = [f for f in scenario.faults if node in f.nodes and f.gpu in (None, index)]
    period_s = math.inf if scenario.repeat_s is None else scenario.repeat_s
    edges_s = sorted({0.0, period_s, *(f.at_s for f in faults), *(f.end_s for f in faults)})
    tiles: list[Segment] = []
    for start_s, end_s in pairwise(edges_s):
        active = [f.kind for f in faults if f.at_s <= start_s < f.end_s]
        mode: Mode = min(active, key=FAULT_KINDS.index) if active else rest
        if tiles and tiles[-1].mode == mode:
            tiles[-1] = Segment(tiles[-1].start_s, end_s, mode)
        else:
            tiles.append(Segment(start_s, end_s, mode))
    return tuple(tiles)


def gpu_values(timeline: GpuTimeline, at_s: float) -> tuple[Value, ...]:
    """All readings of a GPU that answers, in the steps in which a driver gives them."""
    mode = timeline.mode(at_s)
    level = _LEVELS[mode]
    # Utilization is a whole percentage that the driver renews about once a second (nvml.h).
    jitter = random.Random(f"{timeline.phases[0]}/{int(at_s)}").uniform(-1.0, 1.0)
    utilization = min(1.0, max(0.0, round(level.utilization + level.utilization_swing * jitter, 2)))
    used = int(0.84 * _TOTAL_BYTES) if timeline.allocated else 4 * _MIB
    celsius = timeline.temperature_celsius(at_s)
    watts = timeline.power_watts(at_s)
    found: list[tuple[Family, tuple[str, ...], float]] = [
        (m.GPU_UTILIZATION, (), utilization),
        (m.GPU_MEMORY, ("used",), used),
        (m.GPU_MEMORY, ("free",), _TOTAL_BYTES - _RESERVED_BYTES - used),
        (m.GPU_MEMORY, ("reserved",), _RESERVED_BYTES),
        (m.GPU_MEMORY, ("total",), _TOTAL_BYTES),
        (m.GPU_POWER, (), round(watts, 3)),
        (m.GPU_POWER_INSTANT, (), round(watts + 0.1 * level.swing_watts * jitter, 3)),
        (m.GPU_ENERGY, (), round(timeline.energy_joules(at_s), 3)),
        (m.GPU_TEMPERATURE, ("gpu",), round(celsius)),
        (m.GPU_TEMPERATURE, ("memory",), round(celsius + 7.0)),
        (m.GPU_CLOCK, ("sm",), level.sm_hertz),
        (m.GPU_CLOCK, ("memory",), 2_619e6),
        (m.GPU_POWER_LIMIT, ("enforced",), CAPPED_LIMIT_WATTS if mode == "power_cap" else LIMIT_WATTS),
        (m.GPU_POWER_LIMIT, ("default",), LIMIT_WATTS),
        (m.GPU_REMAPPED_ROWS, ("correctable",), 0.0),
        (m.GPU_REMAPPED_ROWS, ("uncorrectable",), 0.0),
        (m.GPU_ROW_REMAP_PENDING, (), 0.0),
        (m.GPU_ROW_REMAP_FAILED, (), 0.0),
        (m.GPU_PCIE_REPLAYS, (), timeline.replays),
    ]
    found += board_values(timeline, at_s, round(celsius))
    for kind in ("corrected", "uncorrected"):
        for scope in ("volatile", "aggregate"):
            count = timeline.corrected_before if (kind, scope) == ("corrected", "aggregate") else 0
            for location in ("all", "sram", "dram"):
                errors = 0 if location == "sram" else count
                found.append((m.GPU_ECC_ERRORS, (kind, scope, location), errors))
    return tuple(Value(family.name, labels, float(value)) for family, labels, value in found)
