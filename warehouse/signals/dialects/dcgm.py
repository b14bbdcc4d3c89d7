"""NVIDIA dcgm-exporter, by the names before and after DCGM 4.6.

DCGM 4.6 renamed fields; most kept id and value, while ids 1600 to 1612 are new fields in base units beside the old
ones (NVIDIA/go-dcgm at b7fa315, dcgm_fields.h). Units are those of that header, and of etc/default-counters.csv of
NVIDIA/dcgm-exporter at d5e5f51. The type that the page states does not matter: it comes from that file, which sites
edit.
"""

from __future__ import annotations

from exporter import metrics as m
from exporter.family import Family
from warehouse.signals import words
from warehouse.signals.alias import Alias, Dialect, EventGauge, Mask, Refused, Row, Workload

MIB = 2**20
MEGA = 1_000_000

_PERCENT = "percent, 0 to 100 (default-counters.csv)"
_MHZ = "MHz (default-counters.csv)"
_MJ = "mJ since the driver was loaded (dcgm_fields.h, 156)"
# The header says MB, the exporter's own help says MiB, and nvidia-smi's MiB are the same numbers.
_MIB = "MiB (default-counters.csv)"
# Help texts said us until release 4.8.0; the header always said ns (NVIDIA/dcgm-exporter pull request 589).
_NS = "ns (dcgm_fields.h, 240 to 242 and 1420 to 1424)"


def _both(
    old: str, new: str, family: Family, *labels: str, times: int = 1, per: int = 1, unit: str = ""
) -> tuple[Alias, ...]:
    """One field under both of its names, with the same id and the same value."""
    return tuple(
        Alias(f"DCGM_FI_{name}", family, labels, times, per, unit) for name in ((old,) if old == new else (old, new))
    )


def _rebased(
    old: str, new: str, family: Family, *labels: str, times: int = 1, per: int = 1, unit: str
) -> tuple[Alias, ...]:
    """A field and its successor in base units; the successor speaks first."""
    return Alias(f"DCGM_FI_{new}", family, labels), Alias(f"DCGM_FI_{old}", family, labels, times, per, unit)


def _profiling(old: str, new: str, family: Family, mig: Family | None) -> tuple[Alias, ...]:
    """A profiling field: a ratio, and under MIG a fact of the instance."""
    return tuple(Alias(f"DCGM_FI_PROF_{name}", family, per_instance=True, mig=mig) for name in (old, new))


def _memory(name: str, state: str) -> Alias:
    """Device memory; on the row of a MIG instance it is that instance's."""
    return Alias(
        f"DCGM_FI_DEV_FB_{name}", m.GPU_MEMORY, (state,), times=MIB, unit=_MIB, per_instance=True, mig=m.MIG_MEMORY
    )


_ACTIVITY: tuple[Row, ...] = (
    Alias("DCGM_FI_DEV_GPU_UTIL", m.GPU_UTILIZATION, per=100, unit=_PERCENT, per_instance=True),
    Alias(
        "DCGM_FI_DEV_GPU_UTIL_RATIO",
        m.GPU_UTILIZATION,
        per=100,
        unit="called a ratio, is field 203 all the same, which is a percentage; the header does not say which",
        per_instance=True,
        percent_above=1.0,
    ),
    Alias("DCGM_FI_DEV_MEM_COPY_UTIL", m.GPU_MEMORY_COPY, per=100, unit=_PERCENT, per_instance=True),
    *_profiling("SM_ACTIVE", "SM_UTIL_RATIO", m.GPU_SM_ACTIVE, m.MIG_SM_ACTIVE),
    *_profiling("SM_OCCUPANCY", "SM_OCCUPANCY_RATIO", m.GPU_SM_OCCUPANCY, None),
    *_profiling("PIPE_TENSOR_ACTIVE", "TENSOR_UTIL_RATIO", m.GPU_TENSOR_ACTIVE, m.MIG_TENSOR_ACTIVE),
    *_profiling("DRAM_ACTIVE", "DRAM_UTIL_RATIO", m.GPU_DRAM_ACTIVE, m.MIG_DRAM_ACTIVE),
    *_profiling("GR_ENGINE_ACTIVE", "GR_ENGINE_UTIL_RATIO", m.GPU_ENGINE_ACTIVE, m.MIG_ENGINE_ACTIVE),
    _memory("USED", "used"),
    _memory("FREE", "free"),
    _memory("RESERVED", "reserved"),
    _memory("TOTAL", "total"),
)

_LINKS: tuple[Row, ...] = (
    # Bytes per second already, in spite of the name.
    Alias("DCGM_FI_PROF_PCIE_TX_BYTES", m.GPU_PCIE_BYTES, ("tx",), per_instance=True),
    Alias("DCGM_FI_PROF_PCIE_RX_BYTES", m.GPU_PCIE_BYTES, ("rx",), per_instance=True),
    *_both("DEV_PCIE_REPLAY_COUNTER", "DEV_PCIE_REPLAY_TOTAL", m.GPU_PCIE_REPLAYS),
    Alias("DCGM_FI_DEV_PCIE_LINK_GEN", m.GPU_PCIE_LINK, ("gen",)),
    Alias("DCGM_FI_DEV_PCIE_LINK_WIDTH", m.GPU_PCIE_LINK, ("width",)),
    Alias("DCGM_FI_DEV_PCIE_MAX_LINK_GEN", m.GPU_PCIE_LINK, ("gen_max",)),
    Alias("DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", m.GPU_PCIE_LINK, ("width_max",)),
    # Our exporter adds the two kinds of CRC errors; a site may have only one of them here, so they stay apart.
    *(
        row
        for kind in ("CRC_FLIT", "CRC_DATA", "REPLAY", "RECOVERY")
        for row in _both(
            f"DEV_NVLINK_{kind}_ERROR_COUNT_TOTAL",
            f"DEV_NVLINK_{kind}_ERROR_TOTAL",
            m.GPU_NVLINK_ERRORS,
            kind.lower(),
        )
    ),
    # dcgmFabricManagerStatus_t and nvmlGpuFabricState_t agree from 0 to 3; what comes after is DCGM's own.
    Alias("DCGM_FI_DEV_FABRIC_MANAGER_STATUS", m.GPU_FABRIC_STATE, valid=(0.0, 3.0)),
    *(
        Refused(
            f"DCGM_FI_DEV_NVLINK_{word}_{link}",
            "not_monotone",
            "called a counter, yet it was seen to fall (NVIDIA/dcgm-exporter issue 417)",
        )
        for word in ("BANDWIDTH", "THROUGHPUT")
        for link in ("TOTAL", *(f"L{n}" for n in range(18)))
    ),
    *(
        Refused(f"DCGM_FI_PROF_NVLINK_{way}_BYTES", "other_meaning", "a rate; gpuminutes_gpu_nvlink_bytes_total counts")
        for way in ("TX", "RX")
    ),
    *(
        Refused(f"DCGM_FI_DEV_PCIE_{way}_THROUGHPUT", "other_meaning", "a sample of 20 ms, not the mean over a cycle")
        for way in ("TX", "RX")
    ),
)

_POWER_AND_CLOCKS: tuple[Row, ...] = (
    *_both("DEV_POWER_USAGE", "DEV_BOARD_POWER_WATTS", m.GPU_POWER),
    *_both("DEV_POWER_USAGE_INSTANT", "DEV_BOARD_POWER_RAW_WATTS", m.GPU_POWER_INSTANT),
    *_both("DEV_ENFORCED_POWER_LIMIT", "DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS", m.GPU_POWER_LIMIT, "enforced"),
    *_both("DEV_POWER_MGMT_LIMIT_DEF", "DEV_BOARD_POWER_LIMIT_DEFAULT_WATTS", m.GPU_POWER_LIMIT, "default"),
    *(
        Refused(f"DCGM_FI_DEV_{name}", "other_meaning", "the limit that was requested; the enforced one may be lower")
        for name in ("POWER_MGMT_LIMIT", "BOARD_POWER_LIMIT_REQUESTED_WATTS")
    ),
    *_rebased("DEV_TOTAL_ENERGY_CONSUMPTION", "DEV_GPU_ENERGY_JOULES_TOTAL", m.GPU_ENERGY, per=1000, unit=_MJ),
    *_both("DEV_GPU_TEMP", "DEV_GPU_TEMP_CELSIUS", m.GPU_TEMPERATURE, "gpu"),
    *_both("DEV_MEMORY_TEMP", "DEV_MEMORY_TEMP_CELSIUS", m.GPU_TEMPERATURE, "memory"),
    *_both("DEV_GPU_TEMP_LIMIT", "DEV_GPU_TEMP_MARGIN_CELSIUS", m.GPU_TEMPERATURE_MARGIN),
    *_rebased("DEV_SM_CLOCK", "DEV_SM_CLOCK_HERTZ", m.GPU_CLOCK, "sm", times=MEGA, unit=_MHZ),
    *_rebased("DEV_MEM_CLOCK", "DEV_MEMORY_CLOCK_HERTZ", m.GPU_CLOCK, "memory", times=MEGA, unit=_MHZ),
    *_rebased("DEV_MAX_SM_CLOCK", "DEV_SM_MAX_CLOCK_HERTZ", m.GPU_CLOCK_MAX, "sm", times=MEGA, unit=_MHZ),
    *_rebased("DEV_MAX_MEM_CLOCK", "DEV_MEMORY_MAX_CLOCK_HERTZ", m.GPU_CLOCK_MAX, "memory", times=MEGA, unit=_MHZ),
    *(
        Mask(f"DCGM_FI_DEV_{name}", m.GPU_CLOCK_EVENT_ACTIVE, words.CLOCK_REASONS)
        for name in ("CLOCK_THROTTLE_REASONS", "CLOCKS_EVENT_REASONS")
    ),
    *(
        Alias(f"DCGM_FI_DEV_{name}", m.GPU_CLOCK_EVENT_SECONDS, (word,), per=10**9, unit=_NS)
        for name, word in (
            ("CLOCKS_EVENT_REASON_SW_POWER_CAP_NS", words.SW_POWER_CAP),
            ("CLOCKS_EVENT_REASON_SYNC_BOOST_NS", words.SYNC_BOOST),
            ("CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS", words.SW_THERMAL),
            ("CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS", words.HW_THERMAL),
            ("CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS", words.POWER_BRAKE),
            # The driver's own counters before the five above: field ids 74 and 76 of nvml.h are the same under both
            # names, and 75 stands for the software slowdown, as in exporter/nvml/sources/clocks.py.
            ("POWER_VIOLATION", words.SW_POWER_CAP),
            ("SYNC_BOOST_VIOLATION", words.SYNC_BOOST),
            ("THERMAL_VIOLATION", words.SW_THERMAL),
        )
    ),
)

_HEALTH: tuple[Row, ...] = (
    *(
        Alias(f"DCGM_FI_DEV_ECC_{bits}_{scope}_TOTAL", m.GPU_ECC_ERRORS, (kind, word, "all"))
        for bits, kind in (("SBE", "corrected"), ("DBE", "uncorrected"))
        for scope, word in (("VOL", "volatile"), ("AGG", "aggregate"))
    ),
    *_both("DEV_ECC_CURRENT", "DEV_ECC_MODE", m.GPU_ECC_MODE, "current"),
    Alias("DCGM_FI_DEV_ECC_PENDING", m.GPU_ECC_MODE, ("pending",)),
    *_both("DEV_THRESHOLD_SRM", "DEV_SRAM_EXCEEDED", m.GPU_SRAM_ECC_THRESHOLD),
    *_both(
        "DEV_UNCORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_UNCORRECTABLE_TOTAL", m.GPU_REMAPPED_ROWS, "uncorrectable"
    ),
    *_both("DEV_CORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_CORRECTABLE_TOTAL", m.GPU_REMAPPED_ROWS, "correctable"),
    *_both("DEV_ROW_REMAP_FAILURE", "DEV_ROW_REMAP_FAILED", m.GPU_ROW_REMAP_FAILED),
    Alias("DCGM_FI_DEV_ROW_REMAP_PENDING", m.GPU_ROW_REMAP_PENDING),
    *(
        row
        for level in ("max", "high", "partial", "low", "none")
        for row in _both(
            f"DEV_BANKS_REMAP_ROWS_AVAIL_{level.upper()}",
            f"DEV_BANK_REMAP_AVAIL_{level.upper()}",
            m.GPU_ROW_REMAP_BANKS,
            level,
        )
    ),
    *_both("DEV_RETIRED_SBE", "DEV_PAGE_RETIRED_SBE_TOTAL", m.GPU_RETIRED_PAGES, "single_bit"),
    *_both("DEV_RETIRED_DBE", "DEV_PAGE_RETIRED_DBE_TOTAL", m.GPU_RETIRED_PAGES, "double_bit"),
    *_both("DEV_RETIRED_PENDING", "DEV_PAGE_RETIRED_PENDING", m.GPU_RETIRED_PAGES_PENDING),
    *_both("DEV_GET_GPU_RECOVERY_ACTION", "DEV_GPU_RECOVERY_ACTION", m.GPU_RECOVERY_ACTION),
    *(
        EventGauge(
            f"DCGM_FI_DEV_{name}",
            "xid",
            code=None,
            window=None,
            why="holds the last code until the exporter restarts (NVIDIA/dcgm-exporter issue 500)",
        )
        for name in ("XID_ERRORS", "XID_ERROR")
    ),
    EventGauge(
        "DCGM_EXP_XID_ERRORS_COUNT",
        "xid",
        code="xid",
        window="window_size_in_ms",
        why="counts the last minutes only (NVIDIA/dcgm-exporter pull request 261)",
    ),
    EventGauge(
        "DCGM_EXP_CLOCK_EVENTS_COUNT",
        "clock_event",
        code="clock_event",
        window="window_size_in_ms",
        why="counts the last minutes only (NVIDIA/dcgm-exporter pull request 239)",
    ),
)

DIALECT = Dialect(
    name="dcgm",
    title="NVIDIA dcgm-exporter",
    prefix="DCGM_",
    rows=_ACTIVITY + _LINKS + _POWER_AND_CLOCKS + _HEALTH,
    # `uuid` with --use-old-namespace, `gpu_uuid` on series of links (render_metrics.go).
    uuid=("UUID", "uuid", "gpu_uuid"),
    slot="pci_bus_id",
    index="gpu",
    instance="GPU_I_ID",
    aside=("nvlink", "nvswitch"),
    blanks=True,
    # Prometheus puts `exported_` before labels that the target has too, and the target's own pod is no workload.
    workloads=(
        Workload(
            "k8s",
            "pod",
            {
                "pod": ("exported_pod", "pod", "pod_name"),
                "namespace": ("exported_namespace", "namespace", "pod_namespace"),
                "container": ("exported_container", "container", "container_name"),
            },
        ),
        Workload("slurm", "job_id", {"job_id": ("hpc_job",)}),
    ),
)
