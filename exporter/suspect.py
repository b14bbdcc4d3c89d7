"""Zeros that cannot be true: activity of exactly 0 on a GPU that plainly works. Pure.

Counters of activity have been seen stuck at 0 for weeks under full load, on other exporters. A GPU counts as
working while its power is above half of the enforced limit, and, where they are served, its utilization is at
least one half and its SM clock at least half of the highest. A single cycle proves nothing, because each of these
is a mean over a time of its own; `CYCLES` in a row do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from exporter import metrics as m
from exporter.readings import Value

CYCLES: Final = 3
# A zero of the first one takes with it the zeros of what cannot be told apart from it.
_TOGETHER: Final = {
    m.GPU_ENGINE_ACTIVE.name: (m.GPU_ENGINE_ACTIVE.name,),
    m.GPU_SM_ACTIVE.name: tuple(
        family.name for family in (m.GPU_SM_ACTIVE, m.GPU_SM_OCCUPANCY, m.GPU_TENSOR_ACTIVE, m.GPU_DRAM_ACTIVE)
    ),
}


def works(values: Sequence[Value]) -> bool:
    """Whether the readings of a board are those of one under load; False where they do not say."""
    found = {(value.family, value.labels): value.value for value in values}
    power, limit = found.get((m.GPU_POWER.name, ())), found.get((m.GPU_POWER_LIMIT.name, ("enforced",)))
    if power is None or limit is None or power <= limit / 2:
        return False
    if found.get((m.GPU_UTILIZATION.name, ()), 1.0) < 0.5:  # absent under MIG
        return False
    clock, highest = found.get((m.GPU_CLOCK.name, ("sm",))), found.get((m.GPU_CLOCK_MAX.name, ("sm",)))
    return clock is None or highest is None or clock >= highest / 2


class ZeroWatch:
    """Counts, for one GPU, the cycles in which an activity cannot be true."""

    def __init__(self) -> None:
        self._cycles = dict.fromkeys(_TOGETHER, 0)

    def sift(self, values: Sequence[Value]) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
        """Splits the readings of one cycle into those to serve and those to withhold.

        A reading comes back by itself, with the first cycle in which it can be true.
        """
        zero = {value.family for value in values if value.value == 0.0}
        under_load = works(values)
        withheld: set[str] = set()
        for name, together in _TOGETHER.items():
            self._cycles[name] = self._cycles[name] + 1 if under_load and name in zero else 0
            if self._cycles[name] >= CYCLES:
                withheld |= zero.intersection(together)
        return (
            tuple(value for value in values if value.family not in withheld),
            tuple(value for value in values if value.family in withheld),
        )
