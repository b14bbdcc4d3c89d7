"""GPU time to the six classes: what was kept of a partial state is good, what no share of a GPU holds is unused."""

from __future__ import annotations

from warehouse.model.state import ALLOCATED, PPM, GpuTimeClass, State, class_of

# What costs money as loss.
CHARGED = frozenset({GpuTimeClass.UNPLANNED, GpuTimeClass.PLANNED, GpuTimeClass.OVERHEAD})

# A part of a loss in a share of a GPU: GPU-ms x lost_ppm x held_ppm, an exact integer.
PPM2 = PPM * PPM


def split(state: State, linked: bool, gpu_ms: int, lost_ms_ppm: int, held_ppm: int | None) -> dict[GpuTimeClass, int]:
    """Gives what of some time is of which class, in GPU-ms x 1,000,000 x 1,000,000; together it is all of it.

    Args:
        state: of the time.
        linked: whether an incident caused it.
        gpu_ms: the area.
        lost_ms_ppm: the sum of GPU-ms x lost_ppm over it.
        held_ppm: what of each GPU its jobs hold together; None means the whole of it, or that none does.
    """
    # A fault is the whole GPU's; a job's work is only in its share.
    held = PPM if held_ppm is None or state not in ALLOCATED else held_ppm
    lost = gpu_ms * PPM if state is State.UNKNOWN else lost_ms_ppm
    found = dict.fromkeys(GpuTimeClass, 0)
    found[class_of(state, linked)] += lost * held
    found[GpuTimeClass.GOOD] += (gpu_ms * PPM - lost) * held
    found[GpuTimeClass.UNUSED] += gpu_ms * PPM * (PPM - held)
    return found


def charged(classes: dict[GpuTimeClass, int]) -> int:
    """Gives the part of a split that costs money as loss."""
    return sum(part for name, part in classes.items() if name in CHARGED)
