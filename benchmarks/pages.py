"""What the targets of a healthy node say, as lines that are the same on every node but for names.

The exporter's own page comes from its simulation, so names and labels are those of a real page. What others write is
listed here by hand in the words of node_exporter 1.5, kube-state-metrics 2, ipmi_exporter and vLLM: names, labels and
levels are plausible, not measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from exporter.metrics import GPU_XID_EVENTS
from exporter.scenario import Scenario
from exporter.simulate import Fleet

SCRAPE_MS: Final = 15_000
GPUS: Final = 8
MOUNT: Final = "/data"
# Readings come again after this many scrapes: five minutes of sines are variety enough for an engine.
_CYCLE: Final = 20
# Counters begin at what a node has counted in a day.
_BEFORE_S: Final = 86_400.0

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Line:
    """One series of a target on any node.

    Attributes:
        name: of the series.
        labels: besides those of the target, the GPU and its holder.
        gpu: its index on the node, None for the node's own.
        readings: at successive scrapes, then again from the first.
        rise: of a counter, at every scrape.
    """

    name: str
    labels: Labels = ()
    gpu: int | None = None
    readings: tuple[float, ...] = (1.0,)
    rise: float = 0.0

    def value(self, tick: int) -> float:
        """Gives the value at the n-th scrape."""
        return self.readings[tick % len(self.readings)] + self.rise * tick

    def has(self, labels: Mapping[str, str]) -> bool:
        """Tells whether it has all of these labels."""
        mine = dict(self.labels)
        return all(mine.get(name) == value for name, value in labels.items())


@cache
def ours(variant: int, busy: bool) -> tuple[Line, ...]:
    """Gives the exporter's page of a node with or without a job; variants differ in their readings."""
    scenario = Scenario(("n",), gpus_per_node=GPUS, job_by_node={"n": "held"} if busy else {}, seed=variant)
    fleet = Fleet(scenario, started_s=0.0)
    times_s = [_BEFORE_S + tick * SCRAPE_MS / 1000 for tick in range(_CYCLE)]
    pages = [fleet.samples("n", at_s) or [] for at_s in times_s]
    there = sorted({dict(zip(s.family.labels, s.labels, strict=True)).get("slot", "") for s in pages[0]} - {""})
    found = []
    for rows in zip(*pages, strict=True):
        family, values = rows[0].family, tuple(row.value for row in rows)
        labels = dict(zip(family.labels, rows[0].labels, strict=True))
        if family is GPU_XID_EVENTS and labels["source"] != "nvml":
            # The log of the kernel repeats them all.
            continue
        gpu = there.index(labels["slot"]) if labels.get("slot") else None
        labels.pop("uuid", None)
        counter = family.kind == "counter"
        rise = (values[-1] - values[0]) / (_CYCLE - 1) if counter else 0.0
        found.append(Line(family.name, tuple(labels.items()), gpu, values[:1] if counter else values, rise))
    return tuple(found)


@cache
def slots() -> tuple[str, ...]:
    """Gives the PCI addresses of a node's GPUs, in order."""
    return tuple(sorted({dict(line.labels)["slot"] for line in ours(0, True) if line.gpu is not None}))


def _gauges(rows: Mapping[str, float], *labels: tuple[str, str]) -> Iterator[Line]:
    for name, value in rows.items():
        yield Line(name, labels, None, (value,))


def _counters(rows: Mapping[str, float], *labels: tuple[str, str]) -> Iterator[Line]:
    """Gives counters by their rate a second."""
    for name, rate in rows.items():
        yield Line(name, labels, None, (rate * _BEFORE_S,), rate * SCRAPE_MS / 1000)


_HOST: Final = {
    "node_boot_time_seconds": 1.7e9,
    "node_load1": 12.0,
    "node_time_seconds": 0.0,
    "node_timex_sync_status": 1.0,
    "node_timex_offset_seconds": 0.00002,
    "node_memory_MemTotal_bytes": 2.1e12,
    "node_memory_MemAvailable_bytes": 1.6e12,
}
_HOST_RATES: Final = {
    "node_vmstat_oom_kill": 0.0,
    "node_pressure_io_waiting_seconds_total": 0.01,
    "node_pressure_io_stalled_seconds_total": 0.005,
    "node_pressure_memory_waiting_seconds_total": 0.0,
    "node_pressure_memory_stalled_seconds_total": 0.0,
    "node_pressure_cpu_waiting_seconds_total": 0.02,
    "node_nfs_rpc_retransmissions_total": 0.0,
    "node_context_switches_total": 50_000.0,
}
_FILESYSTEM: Final = {
    "node_filesystem_size_bytes": 2e12,
    "node_filesystem_avail_bytes": 1.2e12,
    "node_filesystem_free_bytes": 1.3e12,
    "node_filesystem_files": 1.2e8,
    "node_filesystem_files_free": 1.1e8,
    "node_filesystem_readonly": 0.0,
    "node_filesystem_device_error": 0.0,
}
_EDAC: Final = {"node_edac_correctable_errors_total": 0.0, "node_edac_uncorrectable_errors_total": 0.0}
_PORT: Final = {
    "node_infiniband_state_id": 4.0,
    "node_infiniband_physical_state_id": 5.0,
    "node_infiniband_rate_bytes_per_second": 5e10,
}
_PORT_RATES: Final = {
    "node_infiniband_link_downed_total": 0.0,
    "node_infiniband_link_error_recovery_total": 0.0,
    "node_infiniband_port_transmit_wait_total": 1_000.0,
    "node_infiniband_port_data_transmitted_bytes_total": 2e10,
    "node_infiniband_port_data_received_bytes_total": 2e10,
    "node_infiniband_symbol_error_total": 0.0,
}
_NETWORK: Final = {"node_network_up": 1.0, "node_network_carrier": 1.0, "node_network_speed_bytes": 1.25e10}
_NETWORK_RATES: Final = {
    "node_network_carrier_changes_total": 0.0,
    "node_network_receive_errs_total": 0.0,
    "node_network_transmit_errs_total": 0.0,
    "node_network_receive_bytes_total": 1e7,
    "node_network_transmit_bytes_total": 1e7,
}
_MOUNT_RATES: Final = {
    "node_mountstats_nfs_age_seconds_total": 1.0,
    "node_mountstats_nfs_total_read_bytes_total": 1e8,
    "node_mountstats_nfs_total_write_bytes_total": 1e7,
}
_OPERATION_RATES: Final = {
    "node_mountstats_nfs_operations_requests_total": 100.0,
    "node_mountstats_nfs_operations_response_time_seconds_total": 0.3,
    "node_mountstats_nfs_operations_request_time_seconds_total": 0.4,
    "node_mountstats_nfs_operations_queue_time_seconds_total": 0.01,
    "node_mountstats_nfs_operations_transmissions_total": 100.0,
    "node_mountstats_nfs_operations_major_timeouts_total": 0.0,
}


@cache
def host() -> tuple[Line, ...]:
    """Gives node_exporter's page of a node."""
    found = [*_gauges(_HOST), *_counters(_HOST_RATES)]
    found += (
        Line("node_uname_info", (("release", "6.8.0"), ("sysname", "Linux"))),
        Line("node_systemd_unit_state", (("name", "nvidia-fabricmanager.service"), ("state", "active"))),
        Line("node_systemd_unit_state", (("name", "nvidia-fabricmanager.service"), ("state", "failed")), None, (0.0,)),
    )
    for collector in ("filesystem", "infiniband", "mountstats", "nfs", "edac"):
        found.append(Line("node_scrape_collector_success", (("collector", collector),)))
    for device, kind, point in (
        ("/dev/nvme0n1p2", "ext4", "/"),
        ("/dev/nvme1n1", "xfs", "/scratch"),
        ("nfs:/data", "nfs4", MOUNT),
    ):
        found += _gauges(_FILESYSTEM, ("device", device), ("fstype", kind), ("mountpoint", point))
    for controller in ("0", "1"):
        found += _counters(_EDAC, ("controller", controller))
    for port in range(GPUS):
        labels = (("device", f"mlx5_{port}"), ("port", "1"))
        found += (*_gauges(_PORT, *labels), *_counters(_PORT_RATES, *labels))
    for device in ("eth0", "eth1"):
        found += (*_gauges(_NETWORK, ("device", device)), *_counters(_NETWORK_RATES, ("device", device)))
    mount = (("export", "nfs:/data"), ("mountaddr", "10.9.9.9"), ("protocol", "tcp"))
    found += _counters(_MOUNT_RATES, *mount)
    for operation in ("READ", "WRITE", "GETATTR", "COMMIT"):
        found += _counters(_OPERATION_RATES, *mount, ("operation", operation))
    for sensor in ("temp1", "temp2"):
        found.append(Line("node_hwmon_temp_celsius", (("chip", "coretemp"), ("sensor", sensor)), None, (54.0, 55.0)))
    return tuple(found)


@cache
def kubernetes() -> tuple[Line, ...]:
    """Gives what kube-state-metrics says of a node."""
    found = [Line("kube_node_info", (("kernel_version", "6.8.0"),)), *_gauges({"kube_node_spec_unschedulable": 0.0})]
    for name in ("kube_node_status_capacity", "kube_node_status_allocatable"):
        found += _gauges({name: float(GPUS)}, ("resource", "nvidia_com_gpu"), ("unit", "integer"))
    for condition, good in (("Ready", "true"), ("DiskPressure", "false"), ("NetworkUnavailable", "false")):
        for status in ("true", "false", "unknown"):
            labels = (("condition", condition), ("status", status))
            found.append(Line("kube_node_status_condition", labels, None, (float(status == good),)))
    return tuple(found)


_SERVING: Final = {"vllm:kv_cache_usage_perc": 0.4, "vllm:num_requests_waiting": 0.0, "vllm:num_requests_running": 20.0}
_SERVING_RATES: Final = {
    "vllm:num_preemptions_total": 0.0,
    "vllm:generation_tokens_total": 2_000.0,
    "vllm:prompt_tokens_total": 8_000.0,
    "vllm:request_success_total": 5.0,
}
# Requests, or tokens, a second up to each bound: all but a few are quick.
_BOUNDS: Final = ("0.05", "0.1", "0.5", "2.5", "+Inf")
_LATENCIES: Final = {
    "vllm:time_to_first_token_seconds": (1.0, 4.0, 4.98, 5.0, 5.0),
    "vllm:inter_token_latency_seconds": (1_980.0, 1_995.0, 2_000.0, 2_000.0, 2_000.0),
    "vllm:e2e_request_latency_seconds": (0.0, 0.0, 1.0, 4.98, 5.0),
}


_SENSORS: Final = (
    *((f"PS{number} Status", "Power Supply") for number in range(1, 5)),
    *((f"Fan{number}", "Fan") for number in range(1, 9)),
    ("PS Redundancy", "Power Unit"),
    ("CPU1 Temp", "Temperature"),
    ("CPU1 Status", "Processor"),
    ("NMI", "Critical Interrupt"),
)


@cache
def board() -> tuple[Line, ...]:
    """Gives what the BMC of a node says through ipmi_exporter."""
    return tuple(
        Line("ipmi_sensor_state", (("id", str(number)), ("name", name), ("type", kind)), None, (0.0,))
        for number, (name, kind) in enumerate(_SENSORS)
    )


@cache
def serving(start_s: float) -> tuple[Line, ...]:
    """Gives what a healthy vLLM server says, and what is pushed of its canary, from a Unix time on."""
    found: list[Line] = [*_gauges(_SERVING), *_counters(_SERVING_RATES)]
    found.append(Line("gpuminutes_canary_score", (("suite", "facts"),), None, (0.98,)))
    found.append(
        Line("gpuminutes_canary_run_timestamp_seconds", (("suite", "facts"),), None, (start_s,), SCRAPE_MS / 1000)
    )
    for name, rates in _LATENCIES.items():
        for bound, rate in zip(_BOUNDS, rates, strict=True):
            found += _counters({f"{name}_bucket": rate}, ("le", bound))
        found += _counters({f"{name}_sum": rates[-1] / 20, f"{name}_count": rates[-1]})
    return tuple(found)
