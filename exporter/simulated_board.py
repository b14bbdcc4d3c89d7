"""What a simulated GPU says beside activity, power and heat: links, clock events, memory repairs.

A pure function of the timeline and the time. A counter is a rate per mode times the time spent in that mode, so that
it never falls between two loads of the driver, whenever it is asked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from exporter import metrics as m
from exporter.metrics import Family
from exporter.readings import Unavailable

if TYPE_CHECKING:
    from exporter.simulated_gpu import GpuTimeline, Mode

Reading = tuple[Family, tuple[str, ...], float]

UNAVAILABLE: Final = tuple(
    Unavailable(f.field, "not_supported") for f in (m.GPU_RETIRED_PAGES, m.GPU_RETIRED_PAGES_PENDING)
)
"""What an H100 does not say: it remaps rows instead of retiring pages."""

_MAX_OPERATING_CELSIUS: Final = 87
_LINKS: Final = 18
_BANKS: Final = 640
_BANK_STATES: Final = ("max", "high", "partial", "low", "none")
_PCIE_ERRORS: Final = (
    *("correctable", "nak_received", "receiver", "bad_tlp", "nak_sent", "bad_dllp", "non_fatal", "fatal"),
    *("unsupported_request", "lcrc", "lane"),
)
_EVENTS: Final = (
    *("idle", "application_clocks", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal", "hw_thermal"),
    *("power_brake", "display"),
)
_ACTIVE: Final[Mapping[Mode, frozenset[str]]] = {
    "idle": frozenset({"idle"}),
    "thermal": frozenset({"hw_slowdown", "sw_thermal", "hw_thermal"}),
    "power_cap": frozenset({"sw_power_cap"}),
}
_COUNTED_EVENTS: Final = ("sw_power_cap", "sync_boost", "sw_thermal", "hw_thermal", "power_brake")
# Work goes as the clock goes; a hung collective sends nothing.
_SPEED: Final[Mapping[Mode, float]] = {"job": 1.0, "thermal": 0.6, "power_cap": 0.7}
_NVLINK_BYTES_PER_S: Final = {"tx": 150e9, "rx": 148e9}
_PCIE_BYTES_PER_S: Final = {"tx": 0.6e9, "rx": 2.4e9}
_PCIE_WAVE_S: Final = 17.0


def board_values(timeline: GpuTimeline, at_s: float, celsius: int) -> list[Reading]:
    """Readings of a GPU that answers; `celsius` is what it says of its temperature."""
    mode = timeline.mode(at_s)
    speed = _SPEED.get(mode, 0.0)
    found: list[Reading] = [
        (m.GPU_MEMORY_COPY, (), round(0.42 * speed, 2)),
        (m.GPU_TEMPERATURE_MARGIN, (), _MAX_OPERATING_CELSIUS - celsius),
        (m.GPU_CLOCK_MAX, ("sm",), 1_980e6),
        (m.GPU_CLOCK_MAX, ("memory",), 2_619e6),
        (m.GPU_ECC_MODE, ("current",), 1),
        (m.GPU_ECC_MODE, ("pending",), 1),
        (m.GPU_SRAM_ECC_THRESHOLD, (), 0),
        (m.GPU_RECOVERY_ACTION, (), 0),
    ]
    found += [(m.GPU_ROW_REMAP_BANKS, (name,), _BANKS if name == "max" else 0) for name in _BANK_STATES]
    found += _clock_events(timeline, at_s, mode)
    found += _links(timeline, at_s, mode, speed)
    return found


def _clock_events(timeline: GpuTimeline, at_s: float, mode: Mode) -> list[Reading]:
    active = _ACTIVE.get(mode, frozenset())
    found: list[Reading] = [(m.GPU_CLOCK_EVENT_ACTIVE, (event,), event in active) for event in _EVENTS]
    for event in _COUNTED_EVENTS:
        held_s = sum(timeline.loaded_in_s(cause, at_s) for cause, events in _ACTIVE.items() if event in events)
        found.append((m.GPU_CLOCK_EVENT_SECONDS, (event,), round(held_s, 6)))
    return found


def _links(timeline: GpuTimeline, at_s: float, mode: Mode, speed: float) -> list[Reading]:
    wave = 1.0 + 0.2 * math.sin(2 * math.pi * at_s / _PCIE_WAVE_S + timeline.phases[0])
    worked_s = sum(share * timeline.loaded_in_s(work, at_s) for work, share in _SPEED.items())
    found: list[Reading] = []
    for way, rate in _PCIE_BYTES_PER_S.items():
        found.append((m.GPU_PCIE_BYTES, (way,), round(rate * speed * wave)))
    for way, rate in _NVLINK_BYTES_PER_S.items():
        found.append((m.GPU_NVLINK_BYTES, (way,), 1024 * math.floor(rate * worked_s / 1024)))
    found += [(m.GPU_PCIE_ERRORS, (kind,), 0) for kind in _PCIE_ERRORS]
    found += [(m.GPU_NVLINK_ERRORS, (kind,), 0) for kind in ("replay", "recovery", "crc")]
    link = {"gen": 1 if mode == "idle" else 5, "width": 16, "gen_max": 5, "width_max": 16}
    found += [(m.GPU_PCIE_LINK, (attr,), value) for attr, value in link.items()]
    return [
        *found,
        (m.GPU_NVLINKS, ("active",), _LINKS),
        (m.GPU_NVLINKS, ("inactive",), 0),
        (m.GPU_FABRIC_STATE, (), 3),
        (m.GPU_FABRIC_STATUS, (), 0),
    ]
