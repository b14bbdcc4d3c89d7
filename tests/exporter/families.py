"""Families of the contract by when a page of the healthy fake driver has them."""

from __future__ import annotations

TWO_CYCLES = frozenset(
    {
        "gpu_pcie_bytes_per_second",
        "gpu_sm_active_ratio",
        "gpu_sm_occupancy_ratio",
        "gpu_tensor_active_ratio",
        "gpu_dram_active_ratio",
        "gpu_engine_active_ratio",
    }
)
"""Readings that need two cycles of the driver, so that a page printed once has none."""

NOT_ON_H100 = frozenset({"gpu_retired_pages", "gpu_retired_pages_pending"})
"""Readings that the healthy GPUs of the fake driver do not support."""

ASSERTED_ELSEWHERE = frozenset(
    {
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
"""Readings that need a board cut into instances, a host whose processes are seen, or to be asked for."""

REMEMBERED = frozenset(
    {
        *("gpu_up", "gpu_down_reason", "gpu_info", "gpu_xid_events_total", "gpu_xid_last_timestamp_seconds"),
        *("gpu_allocated", "gpu_workload_info", "field_unavailable"),
    }
)
"""What the exporter says of a GPU out of its own memory, whether the GPU answers or not."""
