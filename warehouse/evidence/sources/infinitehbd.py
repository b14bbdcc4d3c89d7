"""The public InfiniteHBD trace: outages of 400 GPU servers over 348 days, with a cause in three levels.

Source: https://github.com/stepfun-ai/InfiniteHBD-Trace (Apache-2.0), arXiv 2502.03885. The trace names no GPU
count and no time zone: 8 GPUs a server and UTC are assumptions, both flags. `event_time` is in days after the
window's start with four decimals, so every value is a whole number of 8,640 ms steps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

from warehouse.errors import BadInput, Finding
from warehouse.evidence import cells
from warehouse.evidence.sources import Option, Source
from warehouse.model.evidence import Evidence
from warehouse.model.fleet import NodeSpec
from warehouse.model.state import State
from warehouse.model.statement import Batch, Statement
from warehouse.model.time import MS_PER_DAY, parse_instant

MAX_BYTES = 256 << 20
UNATTRIBUTED = "unknown/unattributed"

# (Level, Class) -> cause, and (Level, Class, Desc) where the description says more. Our reading: a failed test or a
# suspicion takes a node out of service without naming what is broken; "unspecified" keeps the family that the
# source does name; only its own "Unknown Error" class is unattributed.
BY_CLASS = {
    ("Hardware Failure", "GPU"): "accelerator/unspecified",
    ("Hardware Failure", "Parameter Plane Cable"): "fabric/switch_or_cable",
    ("Hardware Failure", "NIC"): "fabric/nic",
    ("Hardware Failure", "Power Supply"): "power/psu",
    ("Hardware Failure", "Fan"): "cooling/gpu_thermal",
    ("Hardware Failure", "Motherboard"): "host/chassis",
    ("Hardware Failure", "Motherboard Battery"): "host/chassis",
    ("Hardware Failure", "Riser Card"): "host/chassis",
    ("Hardware Failure", "CPU"): "host/cpu_or_mce",
    ("Hardware Failure", "RAID Card"): "host/local_disk",
    ("Hardware Failure", "Other Failures"): "host/unspecified",
    ("Software Failure", "File System"): "host/local_disk",
    ("Software Failure", "Operating System"): "host/kernel_panic_or_reboot",
    ("Software Failure", "Firmware"): "software/driver_firmware",
    ("Software Failure", "Software Tool"): "platform/dependency",
    ("Software Failure", "Other Failures"): "software/unspecified",
    ("Other Failure", "System Crash"): "host/node_unreachable",
    ("Other Failure", "Stress Test Failure"): "operations/unplanned_maintenance",
    ("Other Failure", "Training Task Troubleshooting"): "operations/unplanned_maintenance",
    ("Other Failure", "Test"): "operations/unplanned_maintenance",
    ("Other Failure", "Change"): "operations/unplanned_maintenance",
    ("Other Failure", "Unknown Error"): UNATTRIBUTED,
}
BY_DESCRIPTION = {
    ("Hardware Failure", "GPU", "GPU DBE(Double Bit ECC) > Threshold"): "accelerator/hbm_uncorrectable",
    ("Hardware Failure", "GPU", "GPU SBE(Single Bit ECC) > Threshold"): "accelerator/hbm_correctable_storm",
    ("Hardware Failure", "GPU", "GPU Lost"): "accelerator/gpu_off_bus",
    ("Hardware Failure", "GPU", "GPU device not found"): "accelerator/gpu_off_bus",
    ("Hardware Failure", "GPU", "nvidia-smi Timeout"): "accelerator/gpu_hang",
    ("Hardware Failure", "GPU", "GPU Temperature High"): "cooling/gpu_thermal",
    ("Hardware Failure", "GPU", "GPU PCI link width low"): "host/pcie",
    ("Hardware Failure", "GPU", "Silent Data Corruption"): "accelerator/silent_data_corruption",
    ("Other Failure", "Change", "Remote Optical Module Failure"): "fabric/switch_or_cable",
}


@dataclass(frozen=True, slots=True)
class _Fault:
    node: str
    level: str
    class_: str
    desc: str
    start_ms: int
    end_ms: int | None
    where: str


def read(path: str, zone: ZoneInfo, options: Mapping[str, object]) -> Batch:
    """Gives the fleet and its outages as evidence of `down`.

    The fleet stands from the origin for `days` days and is retired then, since the trace says nothing later. A fault
    that is never ended stays open. Nodes without an outage are named healthy-000, healthy-001 and so on.
    """
    origin, days, nodes, gpus = (options[name] for name in ("origin", "days", "nodes", "gpus_per_node"))
    assert isinstance(origin, int) and isinstance(days, int) and isinstance(nodes, int) and isinstance(gpus, int)
    model = str(options["model"])
    events = _events(path)
    faults, findings = _pair(events, path, origin)
    named = sorted({fault.node for fault in faults})
    if len(named) > nodes:
        raise BadInput(f"{path}: names {len(named)} nodes, more than --nodes {nodes}; give a larger --nodes")
    named += [f"healthy-{number:03d}" for number in range(nodes - len(named))]
    end_ms = origin + days * MS_PER_DAY
    fleet = tuple(
        NodeSpec("infinitehbd", "all", "all", node, gpus, model, origin, end_ms, timezone="UTC") for node in named
    )
    zero = sum(1 for fault in faults if fault.start_ms == fault.end_ms)
    late = sum(1 for fault in faults if fault.start_ms >= end_ms)
    notes = (
        f"{len(faults)} faults on {len({f.node for f in faults})} of {nodes} nodes, {zero} of zero length "
        f"(counted, worth nothing), {late} after the last day (kept, outside the fleet's time)",
        f"assumed: {gpus} GPUs a node, times in UTC; the trace states neither",
    )
    return Batch(tuple(_statements(faults)), len(events), fleet, notes, tuple(map(str, findings)))


def _statements(faults: list[_Fault]) -> list[Statement]:
    statements = []
    seen: dict[str, int] = {}
    for fault in faults:
        path = (fault.level, fault.class_, fault.desc)
        key = "/".join((fault.node, str(fault.start_ms), *path))
        seen[key] = seen.get(key, 0) + 1
        if seen[key] > 1:
            key += f"#{seen[key]}"
        said = Evidence(
            "infinitehbd", key, fault.start_ms, fault.end_ms, fault.node, (), State.DOWN,
            BY_DESCRIPTION.get(path) or BY_CLASS.get(path[:2], UNATTRIBUTED), detail=" > ".join(path),
        )  # fmt: skip
        statements.append(Statement(fault.where, said))
    return statements


def _events(path: str) -> list[object]:
    try:
        with Path(path).open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as exc:
        raise BadInput(f"{path}: cannot be read: {exc.strerror}") from exc
    if len(raw) > MAX_BYTES:
        raise BadInput(f"{path}: is larger than {MAX_BYTES >> 20} MiB; is this fault_trace.json?")
    try:
        events = json.loads(raw.decode("utf-8"), parse_float=Decimal, parse_int=Decimal)
    except UnicodeDecodeError as exc:
        raise BadInput(f"{path}: is not UTF-8 at byte {exc.start + 1}") from exc
    except json.JSONDecodeError as exc:
        raise BadInput(f"{path} line {exc.lineno}, column {exc.colno}: is no JSON: {exc.msg}") from exc
    except RecursionError as exc:
        raise BadInput(f"{path}: is nested too deep to be fault_trace.json") from exc
    if not isinstance(events, list) or not events:
        raise BadInput(f"{path}: is not a list of fault events; give fault_trace.json of the trace")
    return events


def _pair(events: list[object], path: str, origin: int) -> tuple[list[_Fault], list[Finding]]:
    """Pairs each end with the open start of the same (node, Level, Class, Desc), in file order."""
    open_faults: dict[tuple[str, ...], list[tuple[int, str]]] = {}
    faults: list[_Fault] = []
    findings: list[Finding] = []
    for number, event in enumerate(events, start=1):
        where = f"{path} event {number}"
        try:
            kind, key, at_ms = _event(event, origin)
        except ValueError as exc:
            findings.append(Finding(where, str(exc)))
            continue
        if kind == "fault_start":
            open_faults.setdefault(key, []).append((at_ms, where))
        elif not open_faults.get(key):
            findings.append(Finding(where, f"ends a fault of {key[0]} that never started; is the file cut?"))
        else:
            start_ms, start_where = open_faults[key].pop(0)
            if at_ms < start_ms:
                findings.append(Finding(where, f"ends before the start in {start_where}"))
                continue
            faults.append(_Fault(key[0], key[1], key[2], key[3], start_ms, at_ms, start_where))
    for key, starts in open_faults.items():
        faults.extend(_Fault(key[0], key[1], key[2], key[3], at, None, where) for at, where in starts)
    return sorted(faults, key=lambda f: (f.start_ms, f.node, f.level, f.class_, f.desc)), findings


def _event(event: object, origin: int) -> tuple[str, tuple[str, ...], int]:
    if not isinstance(event, dict):
        raise ValueError("is no JSON object")
    kind, node, days, fault = (event.get(key) for key in ("event_type", "node_id", "event_time", "fault_type"))
    if kind not in ("fault_start", "fault_end"):
        raise ValueError("event_type is neither fault_start nor fault_end")
    if not isinstance(node, str):
        raise ValueError("node_id is missing")
    if not isinstance(days, Decimal) or not 0 <= days < 100_000:
        raise ValueError("event_time is not a number of days")
    levels = [fault.get(key) for key in ("Level", "Class", "Desc")] if isinstance(fault, dict) else []
    if not levels or not all(isinstance(level, str) and level for level in levels):
        raise ValueError("fault_type lacks Level, Class or Desc")
    # Half-even, though every value of the trace is a whole number of milliseconds.
    path = tuple(cells.short_text(str(level)) for level in levels)
    return str(kind), (cells.name(node), *path), origin + round(days * MS_PER_DAY)


def _origin(text: str) -> int:
    return parse_instant(text, ZoneInfo("UTC"))


SOURCE = Source(
    "infinitehbd",
    "fault_trace.json of the public InfiniteHBD trace, with its fleet",
    read,
    (
        Option("--nodes", cells.positive_count, "400", "nodes of the fleet, with and without an outage"),
        Option("--gpus-per-node", cells.positive_count, "8", "GPUs of each node"),
        Option("--origin", _origin, "2024-03-30T00:00:00Z", "the instant of event_time 0"),
        Option("--days", cells.positive_count, "348", "days that the trace covers"),
        Option("--model", cells.short_text, "unspecified", "GPU model, as the rate card names it"),
    ),
)
