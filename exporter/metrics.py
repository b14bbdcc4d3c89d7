"""The metric contract: one frozen `Family` per name on the page.

Standard library only, so that anything may import the names from here. A family that is not in `FAMILIES`
cannot be put on a page, and a test proves that every family here can appear.

Laws:
    * a per-GPU family carries `uuid` and `slot` first; workload labels live in `GPU_WORKLOAD_INFO` alone and
      the NVML index lives in `GPU_INFO` alone, because both change while the board stays;
    * `_total` ends the name of every counter and of nothing else; units are base units and stand last;
    * unknown is absent, with `FIELD_UNAVAILABLE` saying why: never 0, -1 or NaN as a stand-in.

NVML names in comments are those of nvidia-ml-py 13.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

PREFIX: Final = "gpuminutes_"

Kind = Literal["gauge", "counter", "flag", "info"]
"""gauge and counter as Prometheus means them; flag is a gauge of 0 or 1; info is a gauge that is always 1."""

GPU_LABELS: Final = ("uuid", "slot")


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family.

    Attributes:
        name: full name, unit and `_total` included.
        kind: see `Kind`.
        unit: base unit in the name ("seconds", "bytes", ...), or "" for a count, flag, code or info.
        help: one sentence for the `# HELP` line.
        labels: label names, in the order in which values are given.
        valid: lowest and highest possible value, both included; a value outside is dropped and counted.
    """

    name: str
    kind: Kind
    unit: str
    help: str
    labels: tuple[str, ...] = ()
    valid: tuple[float, float] | None = None

    @property
    def field(self) -> str:
        """The name without prefix: the value of the `field` label of `FIELD_UNAVAILABLE`."""
        return self.name.removeprefix(PREFIX)

    @property
    def type(self) -> Literal["gauge", "counter"]:
        """What the `# TYPE` line says."""
        return "counter" if self.kind == "counter" else "gauge"

    @property
    def per_gpu(self) -> bool:
        """True when the family carries `uuid` and `slot`."""
        return self.labels[:2] == GPU_LABELS


def _gpu(
    name: str,
    kind: Kind,
    unit: str,
    text: str,
    *labels: str,
    valid: tuple[float, float] | None = None,
) -> Family:
    return Family(PREFIX + "gpu_" + name, kind, unit, text, GPU_LABELS + labels, valid)


# --- the exporter about itself ---------------------------------------------------------------------------
EXPORTER_INFO = Family(
    PREFIX + "exporter_info",
    "info",
    "",
    "Version of the exporter, and whether the page describes hardware or a simulated node.",
    ("version", "mode"),
)
COLLECT_SUCCESS = Family(
    PREFIX + "collect_success",
    "flag",
    "",
    "1 if the last cycle of this collector succeeded, 0 if it failed or is overdue.",
    ("collector",),
)
COLLECT_LAST_SUCCESS = Family(
    PREFIX + "collect_last_success_timestamp_seconds",
    "gauge",
    "seconds",
    "Unix time of the last cycle of this collector that succeeded; alert on its age.",
    ("collector",),
)
COLLECT_DURATION = Family(
    PREFIX + "collect_duration_seconds",
    "gauge",
    "seconds",
    "How long the last finished cycle of this collector took.",
    ("collector",),
)
COLLECT_ERRORS = Family(
    PREFIX + "collect_errors_total",
    "counter",
    "",
    "Failed cycles and dropped values of this collector, by reason.",
    ("collector", "reason"),
)
NVML_WORKER_STUCK = Family(
    PREFIX + "nvml_worker_stuck",
    "flag",
    "",
    "1 while the process that calls the driver has been silent past its deadline.",
)
NVML_WORKER_STUCK_SECONDS = Family(
    PREFIX + "nvml_worker_stuck_seconds",
    "gauge",
    "seconds",
    "How long the present unanswered driver call has lasted; 0 when none is overdue.",
)
NVML_RETURN_CODE = Family(
    PREFIX + "nvml_return_code",
    "gauge",
    "",
    "NVML return code of the last initialisation or device count (0 success, 9 driver not loaded, "
    "12 library not found, 18 library and driver differ, 999 unknown); -1 when never answered.",
)
FIELD_UNAVAILABLE = Family(
    PREFIX + "field_unavailable",
    "info",
    "",
    "1 for every family (or family/label) that cannot be served, with the reason; uuid and slot are empty "
    "for a node field.",
    (*GPU_LABELS, "field", "reason"),
)

# --- the node --------------------------------------------------------------------------------------------
NODE_INFO = Family(
    PREFIX + "node_info",
    "info",
    "",
    "Host name, boot id, kernel and driver version; a new boot id tells a reboot from a restart.",
    ("hostname", "boot_id", "kernel", "driver"),
)
NODE_PRESSURE_STALL = Family(
    PREFIX + "node_pressure_stall_seconds_total",
    "counter",
    "seconds",
    "Time in which some or all tasks of the node waited for a resource (/proc/pressure).",
    ("resource", "kind"),
)
GPUS_EXPECTED = Family(PREFIX + "gpus_expected", "gauge", "", "GPUs that the inventory of this node holds.")
GPUS_VISIBLE = Family(PREFIX + "gpus_visible", "gauge", "", "GPUs that answered in the last cycle.")

# --- one GPU: is it there --------------------------------------------------------------------------------
GPU_UP = _gpu(
    "up",
    "flag",
    "",
    "1 if the GPU answered in the last cycle, 0 if a GPU of the inventory did not; absent before the first.",
)
GPU_DOWN_REASON = _gpu(
    "down_reason",
    "info",
    "",
    "Why the GPU does not answer: lost, reset_required, missing and driver mean down; "
    "timeout and unknown mean no answer.",
    "reason",
)
GPU_INFO = _gpu(
    "info",
    "info",
    "",
    "Last known identity of the GPU; index is NVML's and changes when a GPU falls off the bus.",
    "model",
    "serial",
    "vbios",
    "driver",
    "cuda",
    "mig_mode",
    "persistence",
    "index",
)

# --- one GPU: readings -----------------------------------------------------------------------------------
GPU_UTILIZATION = _gpu(
    "utilization_ratio",
    "gauge",
    "ratio",
    "Share of the last sample period in which a kernel ran; 1 also in a collective that hangs.",
    valid=(0.0, 1.0),
)
GPU_MEMORY = _gpu(
    "memory_bytes",
    "gauge",
    "bytes",
    "Board memory by state; total is a state of its own, so never sum over state.",
    "state",
    valid=(0.0, 2.0**50),
)
GPU_POWER = _gpu(
    "power_watts",
    "gauge",
    "watts",
    "Board power, the mean over a second on most models since Ampere.",
    valid=(0.0, 20_000.0),
)
GPU_POWER_LIMIT = _gpu(
    "power_limit_watts",
    "gauge",
    "watts",
    "Power limit of the board: enforced now, and the default.",
    "kind",
    valid=(0.0, 20_000.0),
)
GPU_TEMPERATURE = _gpu(
    "temperature_celsius", "gauge", "celsius", "Temperature by sensor.", "sensor", valid=(-40.0, 150.0)
)
GPU_CLOCK = _gpu("clock_hertz", "gauge", "hertz", "Present clock frequency by domain.", "domain", valid=(0.0, 20e9))
GPU_ENERGY = _gpu(
    "energy_joules_total",
    "counter",
    "joules",
    "Energy the board used since the driver was loaded.",
    valid=(0.0, 2.0**62),
)
GPU_ECC_ERRORS = _gpu(
    "ecc_errors_total",
    "counter",
    "",
    "Memory errors; scope volatile starts anew with the driver, aggregate survives; absent with ECC off.",
    "kind",
    "scope",
    "location",
    valid=(0.0, 2.0**62),
)
GPU_REMAPPED_ROWS = _gpu(
    "remapped_rows", "gauge", "", "Rows remapped over the life of the board.", "kind", valid=(0.0, 2.0**30)
)
GPU_ROW_REMAP_PENDING = _gpu(
    "row_remap_pending", "flag", "", "1 if a row remapping waits for a GPU reset.", valid=(0.0, 1.0)
)
GPU_ROW_REMAP_FAILED = _gpu(
    "row_remap_failed", "flag", "", "1 if a row remapping has failed: replace the board.", valid=(0.0, 1.0)
)
GPU_PCIE_REPLAYS = _gpu(
    "pcie_replays_total", "counter", "", "PCIe packets that had to be sent again.", valid=(0.0, 2.0**62)
)

# --- one GPU: what the exporter remembers ----------------------------------------------------------------
GPU_XID_EVENTS = _gpu(
    "xid_events_total",
    "counter",
    "",
    "Driver error events (XID) seen since the exporter started; sources overlap, so never sum over source.",
    "xid",
    "source",
)
GPU_XID_LAST = _gpu("xid_last_timestamp_seconds", "gauge", "seconds", "Unix time of the last event of this XID.", "xid")
GPU_WORKLOAD_INFO = _gpu(
    "workload_info",
    "info",
    "",
    "Workload that holds the GPU, for as long as its allocation lasts; join on uuid.",
    "kind",
    "job_id",
    "user",
    "pod",
    "namespace",
    "container",
)
GPU_ALLOCATED = _gpu(
    "allocated", "flag", "", "1 if a workload holds the GPU, with or without a process on it; 0 if none does."
)

FAMILIES: Final[tuple[Family, ...]] = tuple(v for v in list(globals().values()) if isinstance(v, Family))
"""Every family, in page order."""

WATCHED_XIDS: Final = (13, 31, 43, 45, 48, 62, 63, 64, 74, 79, 94, 95, 109, 119, 120, 154)
"""XIDs whose `GPU_XID_EVENTS` row exists at 0 from the start, so that `increase()` sees the first event.

Any other XID gets its row when it happens. What a number means is not the exporter's business.
"""
