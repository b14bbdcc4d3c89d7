"""What the driver of this machine says of its first GPU, beside what is known of it otherwise. One section each.

Reads only: no setting is changed, no counter cleared, nothing reset.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pynvml

from tests.device.watch import code_name

ALL_LINKS = 0xFFFFFFFF
# Reasons that hold the clocks down: label of nvidia-smi, field ids of the counter (251-253 is what drivers of R575
# called 269-271).
COUNTERS = (
    ("SW Power Capping", (74,)),
    ("Sync Boost", (76,)),
    ("SW Thermal Slowdown", (269, 251, 75)),
    ("HW Thermal Slowdown", (270, 252)),
    ("HW Power Braking", (271, 253)),
)
_UNITS = ((1e9, "nanoseconds"), (1e6, "microseconds"), (1e3, "milliseconds"))
_MEMBER = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
EVENT_TYPES = {
    name.removeprefix("nvmlEventType"): value
    for name, value in vars(pynvml).items()
    if name.startswith("nvmlEventType") and isinstance(value, int) and value.bit_count() == 1
}
GPM = {
    1: "engine",
    2: "sm",
    3: "occupancy",
    5: "tensor",
    10: "dram",
    20: "pcie out MiB/s",
    21: "pcie in MiB/s",
    60: "nvlink in MiB/s",
    61: "nvlink out MiB/s",
}


def said(function: Callable[..., Any], *args: Any) -> Any:
    """What a call gives; the return code in words when it is refused."""
    try:
        found = function(*args)
    except pynvml.NVMLError as exc:
        return code_name(int(exc.value))
    return found.decode(errors="replace") if isinstance(found, bytes) else found


def field(handle: Any, number: int, scope: int = 0) -> int | str:
    """One field value, or its return code in words."""
    # Drivers have been seen to touch the entry behind the last one in NVLink queries (nvitop pads for it): room for it.
    values = (pynvml.c_nvmlFieldValue_t * 4)()
    values[0].fieldId, values[0].scopeId = number, scope
    code = pynvml._nvmlGetFunctionPointer("nvmlDeviceGetFieldValues")(handle, ctypes.c_int32(1), ctypes.byref(values))
    if code != 0:
        return f"the call: {code_name(code)}"
    value = values[0]
    if value.nvmlReturn != 0:
        return code_name(value.nvmlReturn)
    return int(getattr(value.value, _MEMBER[value.valueType]))


def machine(handle: Any, count: int) -> Iterator[str]:
    """Driver and model."""
    name, vbios = said(pynvml.nvmlDeviceGetName, handle), said(pynvml.nvmlDeviceGetVbiosVersion, handle)
    yield f"- {count} x {name}, vbios {vbios}"
    driver, nvml = said(pynvml.nvmlSystemGetDriverVersion), said(pynvml.nvmlSystemGetNVMLVersion)
    yield f"- driver {driver}, NVML {nvml}, CUDA {said(pynvml.nvmlSystemGetCudaDriverVersion)}"
    yield f"- architecture {said(pynvml.nvmlDeviceGetArchitecture, handle)} (9 Hopper, 10 Blackwell in nvml.h)"
    yield f"- kernel {Path('/proc/sys/kernel/osrelease').read_text().strip()}"


def smi_microseconds() -> dict[str, int]:
    """The counters as nvidia-smi prints them, in microseconds; {} without one."""
    if shutil.which("nvidia-smi") is None:
        return {}
    command = ["nvidia-smi", "-q", "-i", "0", "-d", "PERFORMANCE"]
    try:
        text = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout
    except subprocess.TimeoutExpired:
        return {}
    return {name: int(number) for name, number in re.findall(r"^\s*([A-Za-z ]+?)\s*: (\d+) us\s*$", text, re.MULTILINE)}


def unit_by_growth(growth: int, wall_s: float) -> str:
    """The unit in which a counter that ran all the time grew; a part of the time leaves several possible."""
    if growth <= 0:
        return "did not grow"
    for per_second, name in _UNITS:
        if 0.7 <= growth / (per_second * wall_s) <= 1.1:
            return name
    possible = [name for per_second, name in _UNITS if growth <= per_second * wall_s * 1.1]
    return f"{growth / wall_s:,.0f} a second: {' or '.join(possible) or 'none of ns, us, ms'}"


def counter_units(handle: Any, windows: Sequence[tuple[str, float, float]]) -> Iterator[str]:
    """Counters against the clock and against nvidia-smi.

    Args:
        handle: of the GPU.
        windows: (what the GPU did, when it begins, how long it lasts), in monotonic seconds; waits for each.
    """
    numbers = [number for _, ids in COUNTERS for number in ids]
    grown: dict[tuple[int, str], str] = {}
    for what, begin_s, length_s in windows:
        time.sleep(max(0.0, begin_s - time.monotonic()))
        began_s = time.monotonic()
        before = {number: field(handle, number) for number in numbers}
        time.sleep(length_s)
        wall_s = time.monotonic() - began_s
        for number in numbers:
            was, now = before[number], field(handle, number)
            if isinstance(was, int) and isinstance(now, int):
                grown[number, what] = unit_by_growth(now - was, wall_s)
    smi = smi_microseconds()
    yield f"nvidia-smi: {'in microseconds beside the counters' if smi else 'not here, or it does not print them'}."
    yield ""
    yield "| reason | field id | value | nvidia-smi | value / nvidia-smi | growth |"
    yield "| --- | --: | --: | --: | --: | --- |"
    for name, ids in COUNTERS:
        for number in ids:
            value, printed = field(handle, number), smi.get(name)
            ratio = f"{value / printed:.4g}" if isinstance(value, int) and printed else "-"
            growth = "; ".join(f"{what}: {grown[number, what]}" for what, _, _ in windows if (number, what) in grown)
            shown = f"{value:,}" if isinstance(value, int) else value
            beside = "-" if printed is None else f"{printed:,} us"
            yield f"| {name} | {number} | {shown} | {beside} | {ratio} | {growth} |"


def link_scopes(handle: Any) -> Iterator[str]:
    """Whether the all-links scope of the traffic counters is the sum of the links."""
    yield "| field id | scope all ones | scope 0 | sum over links | links that answer |"
    yield "| --: | --: | --: | --: | --: |"
    for number in (138, 139, 202, 204):
        by_link = [field(handle, number, link) for link in range(pynvml.NVML_NVLINK_MAX_LINKS)]
        answered = [value for value in by_link if isinstance(value, int)]
        total = f"{sum(answered):,}" if answered else "-"
        shown = [f"{v:,}" if isinstance(v, int) else v for v in (field(handle, number, ALL_LINKS), by_link[0])]
        yield f"| {number} | {shown[0]} | {shown[1]} | {total} | {len(answered)} |"


def event_types(handle: Any) -> Iterator[str]:
    """Which event types the GPU says it has, and which can be registered."""
    supported = said(pynvml.nvmlDeviceGetSupportedEventTypes, handle)
    if isinstance(supported, int):
        supported = f"0x{supported:x}"
    yield f"Supported, by the GPU's own word: {supported}."
    yield ""
    yield "| type | bit | registration |"
    yield "| --- | --: | --- |"
    for name, bit in EVENT_TYPES.items():
        try:
            events = pynvml.nvmlEventSetCreate()
        except pynvml.NVMLError as exc:
            yield f"| {name} | {bit} | event set: {code_name(int(exc.value))} |"
            return
        code = said(pynvml.nvmlDeviceRegisterEvents, handle, bit, events)
        pynvml.nvmlEventSetFree(events)
        yield f"| {name} | {bit} | {code or code_name(0)} |"


def gpm_windows(handle: Any, lengths_s: Sequence[float]) -> Iterator[str]:
    """Hardware counters over windows of several lengths, on what the GPU does now."""
    support = said(lambda: pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice)
    yield f"Supported: {support}."
    if support != 1:
        return
    yield ""
    yield "| window | nvmlGpmMetricsGet | " + " | ".join(GPM.values()) + " |"
    yield "| --: | --- | " + " | ".join("--:" for _ in GPM) + " |"
    for length_s in lengths_s:
        samples = [pynvml.nvmlGpmSampleAlloc() for _ in range(2)]
        try:
            pynvml.nvmlGpmSampleGet(handle, samples[0])
            time.sleep(length_s)
            pynvml.nvmlGpmSampleGet(handle, samples[1])
            asked = pynvml.c_nvmlGpmMetricsGet_t()
            asked.version = pynvml.NVML_GPM_METRICS_GET_VERSION
            asked.numMetrics = len(GPM)
            asked.sample1, asked.sample2 = samples
            for at, number in enumerate(GPM):
                asked.metrics[at].metricId = number
            said_all = said(pynvml.nvmlGpmMetricsGet, asked)
            whole = said_all if isinstance(said_all, str) else code_name(0)
            cells = [
                f"{asked.metrics[at].value:.2f}"
                if asked.metrics[at].nvmlReturn == 0
                else code_name(asked.metrics[at].nvmlReturn)
                for at in range(len(GPM))
            ]
            yield f"| {length_s:g} s | {whole} | " + " | ".join(cells) + " |"
        except pynvml.NVMLError as exc:
            yield f"| {length_s:g} s | sample: {code_name(int(exc.value))} |" + " - |" * len(GPM)
        finally:
            for sample in samples:
                pynvml.nvmlGpmSampleFree(sample)


def processes(handle: Any, loader_pid: int | None) -> Iterator[str]:
    """Whether the structure of the process list is the one that we read: a pid must be a process of this machine."""
    size = ctypes.sizeof(pynvml.c_nvmlProcessInfo_v3_t)
    load = "none" if loader_pid is None else f"pid {loader_pid}"
    yield f"Structure of version 3: {size} bytes. Our own load: {load}."
    for name in ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"):
        found = said(getattr(pynvml, name), handle)
        if isinstance(found, str):
            yield f"- {name}: {found}"
            continue
        yield f"- {name}: {len(found)} processes"
        for one in found:
            known = "in /proc" if Path(f"/proc/{one.pid}").exists() else "not in /proc (another pid namespace?)"
            memory = "unknown" if one.usedGpuMemory is None else f"{one.usedGpuMemory / 2**20:,.0f} MiB"
            yield f"  - pid {one.pid} ({known}), {memory}, gi {one.gpuInstanceId:#x}, ci {one.computeInstanceId:#x}"
