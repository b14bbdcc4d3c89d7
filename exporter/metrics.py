"""The metric contract: one frozen `Family` per name on the page.

Standard library only, so that anything may import the names from here. A family that is not in `FAMILIES`
cannot be put on a page, and a test proves that every family here can appear.

Laws:
    * a per-GPU family carries `uuid` and `slot` first; workload labels live in `GPU_WORKLOAD_INFO` alone and
      the NVML index lives in `GPU_INFO` alone, because both change while the board stays;
    * board facts stand once a board; facts of a MIG instance have families of their own (`mig_`), so that a sum
      over boards stays right;
    * `_total` ends the name of every counter and of nothing else; units are base units and stand last;
    * unknown is absent, with `FIELD_UNAVAILABLE` saying why: never 0, -1 or NaN as a stand-in.

NVML names in comments are those of nvidia-ml-py 13.
"""

from __future__ import annotations

from typing import Final

from exporter.family import (
    BOARD_BYTES,
    CELSIUS,
    CODE,
    COUNT,
    FLAG,
    GPU_LABELS,
    HERTZ,
    PREFIX,
    RATIO,
    WATTS,
    Family,
)
from exporter.family import gpu as _gpu
from exporter.family import mig as _mig
from exporter.family import node as _node

__all__ = ["CLOCK_REASONS", "FAMILIES", "FAMILY_BY_NAME", "PREFIX", "WATCHED_XIDS", "Family"]

# --- the exporter about itself ---------------------------------------------------------------------------
EXPORTER_INFO = _node(
    "exporter_info",
    "info",
    "Version of the exporter, and whether the page describes hardware or a simulated node.",
    *("version", "mode"),
)
COLLECT_SUCCESS = _node(
    "collect_success",
    "flag",
    "1 if the last cycle of this collector succeeded, 0 if it failed or is overdue.",
    "collector",
)
COLLECT_LAST_SUCCESS = _node(
    "collect_last_success_timestamp_seconds",
    "gauge",
    "Unix time of the last cycle of this collector that succeeded; alert on its age.",
    "collector",
)
COLLECT_DURATION = _node(
    "collect_duration_seconds", "gauge", "How long the last finished cycle of this collector took.", "collector"
)
COLLECT_ERRORS = _node(
    "collect_errors_total",
    "counter",
    "Failed cycles and dropped values of this collector, by reason.",
    *("collector", "reason"),
)
NVML_WORKER_STUCK = _node(
    "nvml_worker_stuck", "flag", "1 while the process that calls the driver has been silent past its deadline."
)
NVML_WORKER_STUCK_SECONDS = _node(
    "nvml_worker_stuck_seconds",
    "gauge",
    "How long the present unanswered driver call has lasted; 0 when none is overdue.",
)
NVML_RETURN_CODE = _node(
    "nvml_return_code",
    "gauge",
    "NVML return code of the last initialisation or device count (0 success, 9 driver not loaded, "
    "12 library not found, 18 library and driver differ, 999 unknown); -1 when never answered.",
)
FIELD_UNAVAILABLE = _node(
    "field_unavailable",
    "info",
    "1 for every family (or family/label) that cannot be served, with the reason; uuid and slot are empty "
    "for a node field.",
    *(*GPU_LABELS, "field", "reason"),
)

# --- the node --------------------------------------------------------------------------------------------
NODE_INFO = _node(
    "node_info",
    "info",
    "Host name, boot id, kernel and driver version; a new boot id tells a reboot from a restart.",
    *("hostname", "boot_id", "kernel", "driver"),
)
NODE_PRESSURE_STALL = _node(
    "node_pressure_stall_seconds_total",
    "counter",
    "Time in which some or all tasks of the node waited for a resource (/proc/pressure).",
    *("resource", "kind"),
)
NODE_BLOCKED_TASKS = _node(
    "node_blocked_tasks",
    "gauge",
    "Threads in uninterruptible sleep (state D), by what they wait in: nvidia, nfs or other.",
    "class",
)
NODE_BLOCKED_TASK_OLDEST = _node(
    "node_blocked_task_oldest_seconds",
    "gauge",
    "How long the longest of these threads has been seen in state D without a break; 0 when there is none.",
    "class",
)
NFS_OP_SECONDS = _node(
    "nfs_op_seconds_total",
    "counter",
    "Time from request to end of NFS operations, queueing included (/proc/self/mountstats, execute).",
    *("mount", "op"),
)
NFS_OPS = _node("nfs_ops_total", "counter", "NFS operations.", "mount", "op")
NFS_RETRANS = _node("nfs_retrans_total", "counter", "NFS requests that had to be sent again.", "mount", "op")
NFS_TIMEOUTS = _node("nfs_timeouts_total", "counter", "NFS requests that ran into a major timeout.", "mount", "op")
DISK_IO_SECONDS = _node(
    "disk_io_seconds_total",
    "counter",
    "Time that requests of a block device took, summed over requests (/proc/diskstats).",
    *("dev", "dir"),
)
DISK_IO_BUSY_SECONDS = _node(
    "disk_io_busy_seconds_total", "counter", "Time in which a block device had at least one request in flight.", "dev"
)
DISK_IOS_IN_PROGRESS = _node("disk_ios_in_progress", "gauge", "Requests of a block device in flight now.", "dev")
JOB_PRESSURE_STALL = _node(
    "job_pressure_stall_seconds_total",
    "counter",
    "Time in which some or all tasks of a job waited for a resource (cgroup v2); ends with the job's cgroup.",
    *("job_id", "resource", "kind"),
)
GPUS_EXPECTED = _node(
    "gpus_expected", "gauge", "GPUs that this node should have: the operator's number, else those ever seen."
)
GPUS_VISIBLE = _node("gpus_visible", "gauge", "GPUs that answered in the last cycle.")

# --- one GPU: is it there --------------------------------------------------------------------------------
GPU_UP = _gpu(
    "up",
    "flag",
    "1 if the GPU answered in the last cycle, 0 if a GPU of the inventory did not; absent before the first, and "
    "for a suspended GPU that was left alone.",
)
GPU_DOWN_REASON = _gpu(
    "down_reason",
    "info",
    "Why the GPU does not answer: lost, reset_required, missing and driver mean down; "
    "timeout and unknown mean no answer.",
    "reason",
)
GPU_INFO = _gpu(
    "info",
    "info",
    "Last known identity of the GPU; index is NVML's and changes when a GPU falls off the bus.",
    *("model", "serial", "vbios", "driver", "cuda", "mig_mode", "persistence", "index"),
)

# --- one GPU: activity -----------------------------------------------------------------------------------
GPU_UTILIZATION = _gpu(
    "utilization_ratio",
    "gauge",
    "Share of the last sample period in which a kernel ran; 1 also in a collective that hangs.",
    valid=RATIO,
)
GPU_MEMORY_COPY = _gpu(
    "memory_copy_utilization_ratio",
    "gauge",
    "Share of the last sample period in which device memory was read or written; not its fullness.",
    valid=RATIO,
)
GPU_SM_ACTIVE = _gpu(
    "sm_active_ratio", "gauge", "Share of time in which a multiprocessor had a warp, mean over all.", valid=RATIO
)
GPU_SM_OCCUPANCY = _gpu(
    "sm_occupancy_ratio", "gauge", "Warps resident on multiprocessors, of the most possible.", valid=RATIO
)
GPU_TENSOR_ACTIVE = _gpu(
    "tensor_active_ratio",
    "gauge",
    "Share of cycles in which a tensor pipe worked; the best sign of training.",
    valid=RATIO,
)
GPU_DRAM_ACTIVE = _gpu(
    "dram_active_ratio", "gauge", "Share of cycles in which device memory moved data, of the peak.", valid=RATIO
)
GPU_ENGINE_ACTIVE = _gpu(
    "engine_active_ratio", "gauge", "Share of time in which the graphics and compute engine was busy.", valid=RATIO
)
GPU_MEMORY = _gpu(
    "memory_bytes",
    "gauge",
    "Board memory by state; total is a state of its own, so never sum over state.",
    "state",
    valid=BOARD_BYTES,
)

# --- one GPU: links --------------------------------------------------------------------------------------
GPU_PCIE_BYTES = _gpu(
    "pcie_bytes_per_second",
    "gauge",
    "PCIe traffic of the GPU by direction, mean over a cycle.",
    "dir",
    valid=(0.0, 2.0**40),
)
GPU_PCIE_REPLAYS = _gpu("pcie_replays_total", "counter", "PCIe packets that had to be sent again.", valid=COUNT)
GPU_PCIE_ERRORS = _gpu("pcie_errors_total", "counter", "PCIe errors by type.", "type", valid=COUNT)
GPU_PCIE_LINK = _gpu(
    "pcie_link",
    "gauge",
    "PCIe generation and lanes, now and the most possible; the generation drops on an idle GPU.",
    "attr",
    valid=CODE,
)
GPU_NVLINK_BYTES = _gpu(
    "nvlink_bytes_total",
    "counter",
    "Bytes over all NVLinks of the GPU by direction; up to NVLink 4 without protocol overhead.",
    "dir",
    valid=COUNT,
)
GPU_NVLINK_ERRORS = _gpu(
    "nvlink_errors_total",
    "counter",
    "NVLink errors by type, all links of the GPU together; NVLink 5 counts other types, and recovery_failed is a "
    "part of recovery.",
    "type",
    valid=COUNT,
)
GPU_NVLINKS = _gpu("nvlinks", "gauge", "NVLinks of the GPU by state.", "state", valid=CODE)
GPU_FABRIC_STATE = _gpu(
    "fabric_state",
    "gauge",
    "Registration with the NVLink fabric: 0 not supported, 1 not started, 2 in progress, 3 completed.",
    valid=CODE,
)
GPU_FABRIC_STATUS = _gpu(
    "fabric_status", "gauge", "NVML return code of a completed registration; 0 is good.", valid=(0.0, 999.0)
)

# --- one GPU: power, heat, clocks ------------------------------------------------------------------------
GPU_POWER = _gpu(
    "power_watts", "gauge", "Board power, the mean over a second on most models since Ampere.", valid=WATTS
)
GPU_POWER_INSTANT = _gpu("power_instant_watts", "gauge", "Board power at the moment of reading.", valid=WATTS)
GPU_POWER_LIMIT = _gpu(
    "power_limit_watts", "gauge", "Power limit of the board: enforced now, and the default.", "kind", valid=WATTS
)
GPU_ENERGY = _gpu("energy_joules_total", "counter", "Energy the board used since the driver was loaded.", valid=COUNT)
GPU_TEMPERATURE = _gpu("temperature_celsius", "gauge", "Temperature by sensor.", "sensor", valid=(-40.0, 150.0))
GPU_TEMPERATURE_MARGIN = _gpu(
    "temperature_margin_celsius", "gauge", "Degrees left before the GPU slows itself; below 0 it does.", valid=CELSIUS
)
GPU_CLOCK = _gpu("clock_hertz", "gauge", "Present clock frequency by domain.", "domain", valid=HERTZ)
GPU_CLOCK_MAX = _gpu("clock_max_hertz", "gauge", "Highest clock frequency by domain.", "domain", valid=HERTZ)
GPU_CLOCK_EVENT_ACTIVE = _gpu(
    "clock_event_active", "flag", "1 while this reason holds the clocks down.", "reason", valid=FLAG
)
GPU_CLOCK_EVENT_SECONDS = _gpu(
    "clock_event_seconds_total",
    "counter",
    "Time in which this reason held the clocks down since the driver was loaded; not 0 under normal load.",
    "reason",
    valid=COUNT,
)

# --- one GPU: memory errors, repairs ---------------------------------------------------------------------
GPU_ECC_ERRORS = _gpu(
    "ecc_errors_total",
    "counter",
    "Memory errors; scope volatile starts anew with the driver, aggregate survives; absent with ECC off.",
    *("kind", "scope", "location"),
    valid=COUNT,
)
GPU_ECC_MODE = _gpu("ecc_mode", "flag", "1 if ECC is on: current, and pending for the next reset.", "which", valid=FLAG)
GPU_SRAM_ECC_THRESHOLD = _gpu(
    "sram_ecc_threshold_exceeded",
    "flag",
    "1 if uncorrectable SRAM errors passed the limit: replace the board.",
    valid=FLAG,
)
GPU_REMAPPED_ROWS = _gpu(
    "remapped_rows", "gauge", "Rows remapped over the life of the board.", "kind", valid=(0.0, 2.0**30)
)
GPU_ROW_REMAP_PENDING = _gpu("row_remap_pending", "flag", "1 if a row remapping waits for a GPU reset.", valid=FLAG)
GPU_ROW_REMAP_FAILED = _gpu(
    "row_remap_failed", "flag", "1 if a row remapping has failed: replace the board.", valid=FLAG
)
GPU_ROW_REMAP_BANKS = _gpu(
    "row_remap_banks",
    "gauge",
    "Memory banks by how many spare rows they have left.",
    "availability",
    valid=(0.0, 2.0**30),
)
GPU_RETIRED_PAGES = _gpu(
    "retired_pages",
    "gauge",
    "Memory pages retired over the life of the board (Volta and older).",
    "cause",
    valid=(0.0, 2.0**30),
)
GPU_RETIRED_PAGES_PENDING = _gpu(
    "retired_pages_pending", "flag", "1 if a page waits for a reboot to be retired.", valid=FLAG
)
GPU_RECOVERY_ACTION = _gpu(
    "recovery_action",
    "gauge",
    "What the driver asks for: 0 none, 1 GPU reset, 2 node reboot, 3 drain P2P, 4 drain and reset, "
    "5 recover IMEX domain, 6 bus reset, 7 system reboot.",
    valid=CODE,
)

# --- one GPU: what the exporter remembers ----------------------------------------------------------------
GPU_XID_EVENTS = _gpu(
    "xid_events_total",
    "counter",
    "Driver error events (XID) seen since the exporter started; sources overlap, so never sum over source.",
    *("xid", "source"),
)
GPU_XID_LAST = _gpu(
    "xid_last_timestamp_seconds",
    "gauge",
    "Unix time of the last event of this XID, whichever source saw it; also of one from before the exporter started.",
    "xid",
)

# --- one GPU: who uses it --------------------------------------------------------------------------------
GPU_PROCESSES = _gpu("processes", "gauge", "Processes that compute on the GPU.", valid=(0.0, 1e6))
GPU_PROCESS_MEMORY = _gpu(
    "process_memory_bytes",
    "gauge",
    "Board memory that a process holds; on request only.",
    "pid",
    "comm",
    valid=BOARD_BYTES,
)
GPU_WORKLOAD_INFO = _gpu(
    "workload_info",
    "info",
    "Workload that holds the GPU, for as long as its allocation lasts; join on uuid.",
    *("kind", "job_id", "user", "pod", "namespace", "container"),
)
GPU_ALLOCATED = _gpu(
    "allocated", "flag", "1 if a workload holds the GPU, with or without a process on it; 0 if none does."
)

# --- one MIG instance of a GPU ---------------------------------------------------------------------------
MIG_INFO = _mig("info", "info", "MIG instance: GPU instance, compute instance, profile.", "ci", "mig_uuid", "profile")
MIG_MEMORY = _mig("memory_bytes", "gauge", "Memory of a GPU instance by state.", "state", valid=BOARD_BYTES)
MIG_SM_ACTIVE = _mig("sm_active_ratio", "gauge", "Multiprocessor activity of one GPU instance.", valid=RATIO)
MIG_TENSOR_ACTIVE = _mig("tensor_active_ratio", "gauge", "Tensor activity of one GPU instance.", valid=RATIO)
MIG_DRAM_ACTIVE = _mig("dram_active_ratio", "gauge", "Memory activity of one GPU instance.", valid=RATIO)
MIG_ENGINE_ACTIVE = _mig("engine_active_ratio", "gauge", "Engine activity of one GPU instance.", valid=RATIO)

FAMILIES: Final[tuple[Family, ...]] = tuple(v for v in list(globals().values()) if isinstance(v, Family))
"""Every family, in page order."""

FAMILY_BY_NAME: Final[dict[str, Family]] = {family.name: family for family in FAMILIES}

CLOCK_REASONS: Final = (
    *("idle", "application_clocks", "sw_power_cap", "hw_slowdown", "sync_boost"),
    *("sw_thermal", "hw_thermal", "power_brake", "display"),
)
"""Values of `reason` by bit of the driver's mask (nvml.h, nvmlClocksEventReasons: 0x1 to 0x100)."""

WATCHED_XIDS: Final = (13, 31, 43, 45, 48, 62, 63, 64, 74, 79, 94, 95, 109, 119, 120, 154)
"""XIDs whose `GPU_XID_EVENTS` row exists at 0 from the start, so that `increase()` sees the first event.

Any other XID gets its row when it happens. What a number means is not the exporter's business.
"""
