"""What GPUs of some models say when all is well. Levels are of the order of the real boards; none was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.exporter.fake_nvml.script import Gpu

NOT_SUPPORTED = 3
ALL_LINKS = 0xFFFFFFFF
_MIB = 1 << 20

# Field ids of nvml.h.
PERF_POLICY_POWER, PERF_POLICY_THERMAL, PERF_POLICY_SYNC_BOOST = 74, 75, 76
MEMORY_TEMPERATURE = 82
PCIE_REPLAYS = 94
NVLINK_KIB = (138, 139)
NVLINK_ERRORS = (161, 162, 163)
PCIE_ERRORS = tuple(range(173, 184))
POWER_INSTANT = 186
PCIE_BYTES = (197, 198)
NVLINK5_BYTES = (202, 204)
NVLINK5_ERRORS = (215, 214, 208, 209, 210, 211, 212)
RECOVERY_ACTION = 230
SLOWDOWN_SECONDS = (269, 270, 271)
COUNTERS = frozenset(
    {74, 75, 76, 94, *NVLINK_KIB, *NVLINK_ERRORS, *PCIE_ERRORS, *PCIE_BYTES, *NVLINK5_BYTES, *NVLINK5_ERRORS}
    | {*SLOWDOWN_SECONDS, 52, 59, 38, 45, 251, 252, 253}
)
_UNSIGNED = 1


def make_h100(gpu: Gpu, index: int) -> None:
    """An H100 of an 8-GPU board at work, with a current driver."""
    gpu.uuid = f"GPU-00000000-0000-4000-8000-{index:012d}".encode()
    gpu.name = b"NVIDIA H100 80GB HBM3"
    gpu.serial = f"165{index:010d}".encode()
    gpu.vbios = b"96.00.74.00.01"
    gpu.bus_id = f"{index // 16:08X}:{0x19 + 14 * (index % 16):02X}:00.0".encode()
    gpu.minor = index
    gpu.persistence = 1
    gpu.unknown_field_return = NOT_SUPPORTED
    gpu.utilization_percent, gpu.memory_copy_percent = 90 + index % 10, 40 + index % 10
    gpu.total, gpu.reserved, gpu.used = 81559 * _MIB, 551 * _MIB, 60000 * _MIB
    gpu.free = gpu.total - gpu.reserved - gpu.used
    gpu.power_mw = 600_000 + 1000 * index
    gpu.limit_mw = gpu.default_limit_mw = 700_000
    gpu.energy_mj = 5_000_000_000 + index
    gpu.set_field(POWER_INSTANT, 612_000 + 1000 * index, kind=_UNSIGNED)
    gpu.temperature_c = 55 + index
    gpu.set_field(MEMORY_TEMPERATURE, 65 + index, kind=_UNSIGNED)
    gpu.margin_c = 32 - index
    gpu.thresholds_c[:] = [92, 89, 95, 87, 0, 0, 0, 0]
    gpu.sm_mhz, gpu.memory_mhz, gpu.sm_max_mhz, gpu.memory_max_mhz = 1980, 2619, 1980, 2619
    gpu.clock_events = 0
    for number, seconds in zip(
        (PERF_POLICY_POWER, PERF_POLICY_SYNC_BOOST, *SLOWDOWN_SECONDS), (7, 0, 3, 0, 0), strict=True
    ):
        gpu.set_field(number, seconds * 1_000_000_000)
    gpu.set_field(RECOVERY_ACTION, 0, kind=_UNSIGNED)
    gpu.activity.make_healthy()
    _memory(gpu)
    _links(gpu, index)


def _memory(gpu: Gpu) -> None:
    gpu.ecc_mode[:] = [1, 1]
    gpu.banks[:] = [640, 0, 0, 0, 0]
    for function in ("retired_pages", "retired_pending"):  # Ampere and newer remap rows instead
        gpu.returns_for(function, NOT_SUPPORTED)


def _links(gpu: Gpu, index: int) -> None:
    gpu.pcie_gen = gpu.pcie_gen_max = 5
    gpu.pcie_width = gpu.pcie_width_max = 16
    gpu.set_field(PCIE_REPLAYS, 0, kind=_UNSIGNED)
    for number in PCIE_ERRORS:
        gpu.set_field(number, 0, kind=_UNSIGNED)
    for at, number in enumerate(PCIE_BYTES):
        gpu.set_field(number, (9 + at + index) * 10**12)
    gpu.links = 18
    gpu.link_active[:18] = [1] * 18
    for at, number in enumerate(NVLINK_KIB):
        gpu.set_field(number, (3 + at + index) * 10**9, scope=ALL_LINKS)
    for number in NVLINK_ERRORS:
        for link in range(18):
            gpu.set_field(number, 0, scope=link)
    gpu.fabric_state, gpu.fabric_status = 3, 0


def make_geforce(gpu: Gpu) -> None:
    """A GeForce RTX 4090: no ECC, serial, row remapper, NVLink, fabric, memory temperature, SRAM status."""
    gpu.name, gpu.serial = b"NVIDIA GeForce RTX 4090", b""
    gpu.activity.gpm_supported = 0
    for function in (
        *("serial", "mig", "ecc_mode", "ecc_total", "ecc_location", "sram_status", "remapped_rows", "banks", "fabric"),
        *("retired_pages", "retired_pending"),
    ):
        gpu.returns_for(function, NOT_SUPPORTED)
    gpu.links = 0
    for number in (MEMORY_TEMPERATURE, *PCIE_BYTES, *PCIE_ERRORS):
        gpu.refuse_field(number, NOT_SUPPORTED)
    gpu.limit_mw = gpu.default_limit_mw = 450_000
    gpu.power_mw = 380_000
    gpu.pcie_gen = gpu.pcie_gen_max = 4


def make_v100(gpu: Gpu) -> None:
    """A V100: retires pages, remaps no rows, has six links and no fabric."""
    gpu.activity.gpm_supported = 0
    gpu.name = b"Tesla V100-SXM2-32GB"
    for function in ("retired_pages", "retired_pending"):
        gpu.returns_for(function, 0)
    for function in ("mig", "remapped_rows", "banks", "sram_status", "margin", "fabric"):
        gpu.returns_for(function, NOT_SUPPORTED)
    gpu.retired[:] = [2, 1]
    gpu.links = 6
    for link in range(18):
        for number in NVLINK_ERRORS:
            gpu.refuse_field(number, NOT_SUPPORTED, scope=link)
    for number, count in ((52, 5), (59, 1), (38, 2), (45, 3)):
        gpu.set_field(number, count)
    for number in (*PCIE_BYTES, *PCIE_ERRORS, RECOVERY_ACTION):
        gpu.refuse_field(number, NOT_SUPPORTED)


def make_b200(gpu: Gpu) -> None:
    """A B200: NVLink 5, which counts bytes and errors in other fields."""
    gpu.name = b"NVIDIA B200"
    for number in NVLINK_KIB:
        gpu.refuse_field(number, NOT_SUPPORTED, scope=ALL_LINKS)
    for link in range(18):
        for number in NVLINK_ERRORS:
            gpu.refuse_field(number, NOT_SUPPORTED, scope=link)
        for number in NVLINK5_BYTES:
            gpu.set_field(number, 10**11 + link, scope=link)
        for number in NVLINK5_ERRORS:
            gpu.set_field(number, 0, scope=link)


def start_counters_anew(gpu: Gpu) -> None:
    """What a reset or another load of the driver does to the counters; InfoROM keeps the aggregate ones."""
    gpu.energy_mj = gpu.replays = 0
    for kind in range(2):
        gpu.ecc[kind][0][:] = [0, 0, 0]
    for at in range(gpu.fields_used):
        if gpu.fields[at].id in COUNTERS:
            gpu.fields[at].bits = 0


OLD_DRIVER_LACKS = (
    *("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMarginTemperature", "nvmlDeviceGetCurrentClocksEventReasons"),
    *("nvmlDeviceGetSramEccErrorStatus", "nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetRowRemapperHistogram"),
    *(
        "nvmlDeviceGetRemappedRows",
        "nvmlDeviceGetComputeRunningProcesses_v2",
        "nvmlDeviceGetComputeRunningProcesses_v3",
    ),
    *(f"nvmlGpm{name}" for name in ("QueryDeviceSupport", "SampleAlloc", "SampleFree", "SampleGet", "MetricsGet")),
)
"""Functions that came after R450."""
_INVALID_ARGUMENT = 2
_FIELDS_OF_R450 = 142


def age_driver(gpu: Gpu) -> None:
    """What a driver of the time of R450 does with field ids that it does not know; see `OLD_DRIVER_LACKS` too."""
    gpu.unknown_field_return = _INVALID_ARGUMENT
    for at in range(gpu.fields_used):
        if gpu.fields[at].id >= _FIELDS_OF_R450:
            gpu.fields[at].ret = _INVALID_ARGUMENT


def blank_out(gpu: Gpu) -> None:
    """Stands a number that means "no value" in many readings, of each of the three kinds."""
    int32, int64 = 2147483632, 9223372036854775792
    gpu.utilization_percent, gpu.power_mw, gpu.temperature_c, gpu.sm_mhz = int32, int32 + 1, int32 + 2, int32 + 3
    gpu.energy_mj, gpu.used, gpu.clock_events, gpu.ecc[0][0][0] = int64, int64 + 1, int64 + 2, int64 + 3
    gpu.banks[4] = int32
    double = 0
    for number in (POWER_INSTANT, RECOVERY_ACTION, PERF_POLICY_POWER):
        gpu.set_field(number, 0x42E0000000000000, kind=double)  # 140737488355328.0
    gpu.set_field(NVLINK_KIB[0], int64, scope=ALL_LINKS)
    gpu.set_field(NVLINK_ERRORS[0], int32, scope=3)
