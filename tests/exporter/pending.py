"""Families of the contract that no page has yet; each name goes when its family comes."""

from __future__ import annotations

PENDING = frozenset(
    {
        "gpu_memory_copy_utilization_ratio",
        "gpu_sm_active_ratio",
        "gpu_sm_occupancy_ratio",
        "gpu_tensor_active_ratio",
        "gpu_dram_active_ratio",
        "gpu_engine_active_ratio",
        "gpu_pcie_bytes_per_second",
        "gpu_pcie_errors_total",
        "gpu_pcie_link",
        "gpu_nvlink_bytes_total",
        "gpu_nvlink_errors_total",
        "gpu_nvlinks",
        "gpu_fabric_state",
        "gpu_fabric_status",
        "gpu_power_instant_watts",
        "gpu_temperature_margin_celsius",
        "gpu_clock_max_hertz",
        "gpu_clock_event_active",
        "gpu_clock_event_seconds_total",
        "gpu_ecc_mode",
        "gpu_sram_ecc_threshold_exceeded",
        "gpu_row_remap_banks",
        "gpu_retired_pages",
        "gpu_retired_pages_pending",
        "gpu_recovery_action",
        "gpu_processes",
        "gpu_process_memory_bytes",
        "mig_info",
        "mig_memory_bytes",
        "mig_sm_active_ratio",
        "mig_tensor_active_ratio",
        "mig_dram_active_ratio",
        "mig_engine_active_ratio",
    }
)
