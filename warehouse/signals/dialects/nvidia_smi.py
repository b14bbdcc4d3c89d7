"""utkuozdemir/nvidia_gpu_exporter, which serves every query field of nvidia-smi, mostly in base units.

Names and meanings: its docs/METRICS.md and internal/nvidiasmi at e656cd8. It takes numbers out of texts where it can,
so that a product name becomes 200; what nvidia-smi shows as a word keeps NVML's number. Its UUIDs lack `GPU-`
(NormalizeUUID), and only `nvidia_smi_gpu_info` says the PCI address.
"""

from __future__ import annotations

from exporter import metrics as m
from exporter.family import Family
from warehouse.signals import words
from warehouse.signals.alias import Alias, Dialect, From, Mask, Refused, Row

_PREFIX = "nvidia_smi_"


def _row(name: str, family: Family, *labels: str | From) -> Alias:
    return Alias(_PREFIX + name, family, labels)


def _refused(name: str, why: str) -> Refused:
    return Refused(_PREFIX + name, "other_meaning", why)


_GI = From("gpu_instance_id", needed=True)
_STATES = ("used", "free", "reserved", "total")
_REASONS = {
    "gpu_idle": words.IDLE,
    "applications_clocks_setting": words.APPLICATION_CLOCKS,
    "sw_power_cap": words.SW_POWER_CAP,
    "hw_slowdown": words.HW_SLOWDOWN,
    "sync_boost": words.SYNC_BOOST,
    "sw_thermal_slowdown": words.SW_THERMAL,
    "hw_thermal_slowdown": words.HW_THERMAL,
    "hw_power_brake_slowdown": words.POWER_BRAKE,
}


def _reasons(event: str) -> tuple[Row, ...]:
    """A gauge for each reason; after them the mask, in which alone the display's stands."""
    gauges = (_row(f"{event}_{name}", m.GPU_CLOCK_EVENT_ACTIVE, word) for name, word in _REASONS.items())
    return (*gauges, Mask(f"{_PREFIX}{event}_active", m.GPU_CLOCK_EVENT_ACTIVE, words.CLOCK_REASONS))


_ACTIVITY: tuple[Row, ...] = (
    _row("utilization_gpu_ratio", m.GPU_UTILIZATION),
    _row("utilization_memory_ratio", m.GPU_MEMORY_COPY),
    *(_row(f"memory_{state}_bytes", m.GPU_MEMORY, state) for state in _STATES),
    _row("compute_apps", m.GPU_PROCESSES),
    _row("pcie_link_gen_current", m.GPU_PCIE_LINK, "gen"),
    _row("pcie_link_gen_max", m.GPU_PCIE_LINK, "gen_max"),
    _row("pcie_link_width_current", m.GPU_PCIE_LINK, "width"),
    _row("pcie_link_width_max", m.GPU_PCIE_LINK, "width_max"),
    *(
        _refused(f"pcie_throughput_{way}_bytes_per_second", "a sample of 20 ms, not the mean over a cycle")
        for way in ("tx", "rx")
    ),
    _row("fabric_state", m.GPU_FABRIC_STATE),
)

_POWER_AND_CLOCKS: tuple[Row, ...] = (
    _row("power_draw_watts", m.GPU_POWER),
    # The mean over a second, which power.draw is too since Ampere (nvidia-smi --help-query-gpu).
    _row("power_draw_average_watts", m.GPU_POWER),
    _row("power_draw_instant_watts", m.GPU_POWER_INSTANT),
    _row("enforced_power_limit_watts", m.GPU_POWER_LIMIT, "enforced"),
    _row("power_default_limit_watts", m.GPU_POWER_LIMIT, "default"),
    _refused("power_limit_watts", "the limit that was requested; the enforced one may be lower"),
    _row("energy_joules_total", m.GPU_ENERGY),
    _row("temperature_gpu", m.GPU_TEMPERATURE, "gpu"),
    _row("temperature_memory", m.GPU_TEMPERATURE, "memory"),
    _row("temperature_gpu_tlimit", m.GPU_TEMPERATURE_MARGIN),
    _row("clocks_current_sm_clock_hz", m.GPU_CLOCK, "sm"),
    _row("clocks_current_memory_clock_hz", m.GPU_CLOCK, "memory"),
    _row("clocks_max_sm_clock_hz", m.GPU_CLOCK_MAX, "sm"),
    _row("clocks_max_memory_clock_hz", m.GPU_CLOCK_MAX, "memory"),
    # Drivers before 535 say throttle for event.
    *_reasons("clocks_event_reasons"),
    *_reasons("clocks_throttle_reasons"),
    *(
        _row(f"clocks_event_reasons_counters_{name}_seconds", m.GPU_CLOCK_EVENT_SECONDS, word)
        for name, word in _REASONS.items()
        if word not in (words.IDLE, words.APPLICATION_CLOCKS, words.HW_SLOWDOWN)
    ),
)

_HEALTH: tuple[Row, ...] = (
    *(
        _row(f"ecc_errors_{kind}_{scope}_{name}", m.GPU_ECC_ERRORS, kind, scope, place)
        for kind in ("corrected", "uncorrected")
        for scope in ("volatile", "aggregate")
        for name, place in (("total", "all"), ("dram", "dram"), ("sram", "sram"))
    ),
    _row("ecc_errors_uncorrected_aggregate_sram_threshold_exceeded", m.GPU_SRAM_ECC_THRESHOLD),
    _row("ecc_mode_current", m.GPU_ECC_MODE, "current"),
    _row("ecc_mode_pending", m.GPU_ECC_MODE, "pending"),
    _row("remapped_rows_correctable", m.GPU_REMAPPED_ROWS, "correctable"),
    _row("remapped_rows_uncorrectable", m.GPU_REMAPPED_ROWS, "uncorrectable"),
    _row("remapped_rows_pending", m.GPU_ROW_REMAP_PENDING),
    _row("remapped_rows_failure", m.GPU_ROW_REMAP_FAILED),
    *(
        _row(f"remapped_rows_histogram_{level}", m.GPU_ROW_REMAP_BANKS, level)
        for level in ("max", "high", "partial", "low", "none")
    ),
    _row("gpu_recovery_action", m.GPU_RECOVERY_ACTION),
    # A real counter since that exporter started, from NVML's events; a GPU that it cannot name is "unknown".
    _row("xid_errors_total", m.GPU_XID_EVENTS, From("xid", needed=True), "nvml"),
    _row("xid_last_timestamp_seconds", m.GPU_XID_LAST, From("xid", needed=True)),
)

_IDENTITY: tuple[Row, ...] = (
    _row(
        "gpu_info",
        m.GPU_INFO,
        From("name"),
        From("serial"),
        From("vbios_version"),
        From("driver_version"),
        From("cuda_version"),
        # Whether MIG and persistence are on stands in series of their own.
        "",
        "",
        From("index"),
    ),
    *(
        Refused(_PREFIX + name, "text_as_number", why)
        for name, why in (
            ("name", "the digits of the product name: NVIDIA H200 is 200"),
            ("serial", "a serial number; its leading zeros are lost"),
        )
    ),
    _row("mig_info", m.MIG_INFO, _GI, From("compute_instance_id"), From("mig_uuid", prefix="MIG-"), From("profile")),
    *(_row(f"mig_memory_{state}_bytes", m.MIG_MEMORY, _GI, state) for state in _STATES),
    _row("mig_sm_activity_ratio", m.MIG_SM_ACTIVE, _GI),
    _row("mig_tensor_activity_ratio", m.MIG_TENSOR_ACTIVE, _GI),
    _row("mig_graphics_activity_ratio", m.MIG_ENGINE_ACTIVE, _GI),
    Refused(_PREFIX + "mig_sm_occupancy_ratio", "other_level", "occupancy of an instance has no family of ours"),
)

DIALECT = Dialect(
    name="nvidia_smi",
    title="nvidia_gpu_exporter",
    prefix=_PREFIX,
    rows=_ACTIVITY + _POWER_AND_CLOCKS + _HEALTH + _IDENTITY,
    uuid_prefix="GPU-",
    uuid_unknown="unknown",
    slot="pci_bus_id",
    slot_info=_PREFIX + "gpu_info",
)
