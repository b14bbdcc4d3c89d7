"""Scripted troubles and how each shows in the series: what falls silent, what changes, what appears.

All are functions of time alone, so that any piece of a replay can be written without the pieces before it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

from benchmarks.pages import GPUS, SCRAPE_MS, Labels, Line
from exporter import metrics as m
from warehouse.model.time import MS_PER_MINUTE, MS_PER_SECOND, Window

OURS: Final = "gpu-minutes"
HOST: Final = "node"
BOARD: Final = "ipmi"
KUBERNETES: Final = "kube-state-metrics"
SERVING: Final = "vllm"

How = Literal["set", "scale", "add", "rate", "stop", "gone"]


@dataclass(frozen=True, slots=True)
class Change:
    """How a trouble changes the lines of some names while it lasts.

    `set`, `scale` and `add` act on a reading, `rate` adds so much a second to a counter and stays counted, `stop`
    holds a counter, `gone` takes the line away.
    """

    names: tuple[str, ...]
    how: How
    number: float = 0.0
    where: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of trouble.

    Attributes:
        silent: targets that do not answer.
        unwatched: whether nobody scrapes at all.
        reboots: whether the node comes back with a new boot, counters at 0.
        changes: see `Change`; of the GPUs it hits, or of the whole node where it names none.
        shown: series that are there only while it lasts.
        xid: the driver's error of its onset; its time is told until the next boot.
        of: whom it hits.
    """

    of: Literal["node", "gpu", "job", "endpoint", "everyone"] = "node"
    silent: frozenset[str] = frozenset()
    unwatched: bool = False
    reboots: bool = False
    changes: tuple[Change, ...] = ()
    shown: tuple[tuple[str, Labels], ...] = ()
    xid: int | None = None


def _lost(reason: str, xid: int | None) -> Kind:
    shown = ((m.GPU_DOWN_REASON.name, (("reason", reason),)),)
    kept = {m.GPU_UP.name, m.GPU_INFO.name, m.GPU_XID_EVENTS.name, m.GPU_WORKLOAD_INFO.name, m.GPU_ALLOCATED.name}
    gone = tuple(f.name for f in m.FAMILIES if "uuid" in f.labels and f.name not in kept)
    return Kind("gpu", changes=(Change((m.GPU_UP.name,), "set", 0.0), Change(gone, "gone")), shown=shown, xid=xid)


def _held(reason: str, clock: float, watts: float, *more: Change) -> Kind:
    return Kind(
        "gpu",
        changes=(
            Change((m.GPU_CLOCK_EVENT_ACTIVE.name,), "set", 1.0, {"reason": reason}),
            Change((m.GPU_CLOCK_EVENT_SECONDS.name,), "rate", 1.0, {"reason": reason}),
            Change((m.GPU_CLOCK.name,), "scale", clock, {"domain": "sm"}),
            Change((m.GPU_POWER.name, m.GPU_POWER_INSTANT.name), "scale", watts),
            *more,
        ),
    )


def _xid(code: int, *changes: Change) -> Kind:
    return Kind("gpu", changes=changes, xid=code)


_ACTIVITY = (m.GPU_SM_ACTIVE.name, m.GPU_TENSOR_ACTIVE.name, m.GPU_DRAM_ACTIVE.name)
_NFS = (m.NFS_OPS.name, m.NFS_OP_SECONDS.name)
_HOST_NFS = tuple(
    f"node_mountstats_nfs_operations_{what}_total"
    for what in ("requests", "response_time_seconds", "request_time_seconds", "transmissions")
)
_FREE = ("node_filesystem_avail_bytes", "node_filesystem_free_bytes")
_HOT = (
    Change((m.GPU_TEMPERATURE.name,), "add", 24.0),
    Change((m.GPU_TEMPERATURE_MARGIN.name,), "set", -1.0),
)
_ECC = {"kind": "uncorrected", "scope": "volatile", "location": "dram"}

KINDS: Final[Mapping[str, Kind]] = {
    "node_dead": Kind(silent=frozenset({OURS, HOST}), reboots=True),
    "exporter_dead": Kind(silent=frozenset({OURS})),
    "host_exporter_dead": Kind(silent=frozenset({HOST})),
    "unwatched": Kind(unwatched=True),
    "prometheus_stopped": Kind("everyone", unwatched=True),
    "gpu_lost": _lost("lost", 79),
    "gpu_silent": _lost("timeout", None),
    "hang": Kind(
        "job",
        changes=(
            Change((m.GPU_UTILIZATION.name,), "set", 1.0),
            Change((m.GPU_POWER.name, m.GPU_POWER_INSTANT.name), "set", 175.0),
            Change(_ACTIVITY, "scale", 0.02),
            Change((m.GPU_NVLINK_BYTES.name,), "stop"),
        ),
    ),
    "power_brake": _held("power_brake", 0.3, 0.4),
    "hw_thermal": _held("hw_thermal", 0.5, 0.6, *_HOT),
    "sw_thermal": _held("sw_thermal", 0.8, 0.9, *_HOT),
    "power_cap": _held("sw_power_cap", 0.7, 0.6, Change((m.GPU_POWER_LIMIT.name,), "set", 400.0, {"kind": "enforced"})),
    "io_stall": Kind(
        changes=(
            Change((m.NODE_PRESSURE_STALL.name,), "rate", 0.95, {"resource": "io"}),
            Change(("node_pressure_io_waiting_seconds_total", "node_pressure_io_stalled_seconds_total"), "rate", 0.95),
            Change((m.NODE_BLOCKED_TASKS.name,), "set", 32.0, {"class": "nfs"}),
            Change((m.NODE_BLOCKED_TASK_OLDEST.name,), "set", 120.0, {"class": "nfs"}),
            Change((*_NFS, *_HOST_NFS), "stop"),
            Change((m.NFS_RETRANS.name, "node_nfs_rpc_retransmissions_total"), "rate", 2.0),
            Change((m.GPU_UTILIZATION.name, *_ACTIVITY), "scale", 0.05),
            Change((m.GPU_POWER.name, m.GPU_POWER_INSTANT.name), "set", 95.0),
        )
    ),
    "memory_fault": _xid(48, Change((m.GPU_ECC_ERRORS.name,), "rate", 0.02, _ECC)),
    "remap_pending": _xid(63, Change((m.GPU_ROW_REMAP_PENDING.name,), "set", 1.0)),
    "remap_failed": _xid(64, Change((m.GPU_ROW_REMAP_FAILED.name,), "set", 1.0)),
    "nvlink": _xid(74, Change((m.GPU_NVLINK_ERRORS.name,), "rate", 3.0)),
    "application": _xid(13),
    "gsp": _xid(119),
    "replays": Kind("gpu", changes=(Change((m.GPU_PCIE_REPLAYS.name,), "rate", 5.0),)),
    "narrow_link": Kind("gpu", changes=(Change((m.GPU_PCIE_LINK.name,), "set", 8.0, {"attr": "width"}),)),
    "port_down": Kind(
        changes=(
            Change(("node_infiniband_state_id",), "set", 1.0, {"device": "mlx5_3"}),
            Change(("node_infiniband_physical_state_id",), "set", 3.0, {"device": "mlx5_3"}),
            Change(("node_infiniband_port_data_transmitted_bytes_total",), "stop", 0.0, {"device": "mlx5_3"}),
        )
    ),
    "congestion": Kind(changes=(Change(("node_infiniband_port_transmit_wait_total",), "rate", 5e8),)),
    "read_only": Kind(changes=(Change(("node_filesystem_readonly",), "set", 1.0, {"mountpoint": "/scratch"}),)),
    "disk_full": Kind(changes=(Change(_FREE, "set", 0.0, {"mountpoint": "/data"}),)),
    "dimm": Kind(changes=(Change(("node_edac_uncorrectable_errors_total",), "rate", 0.01, {"controller": "1"}),)),
    "host_oom": Kind(changes=(Change(("node_vmstat_oom_kill",), "rate", 0.02),)),
    "not_ready": Kind(
        changes=(
            Change(("kube_node_status_condition",), "set", 0.0, {"condition": "Ready", "status": "true"}),
            Change(("kube_node_status_condition",), "set", 1.0, {"condition": "Ready", "status": "unknown"}),
        )
    ),
    "cordoned": Kind(changes=(Change(("kube_node_spec_unschedulable",), "set", 1.0),)),
    "supply": Kind(changes=(Change(("ipmi_sensor_state",), "set", 2.0, {"name": "PS2 Status"}),)),
    "gpus_withheld": Kind(changes=(Change(("kube_node_status_allocatable",), "set", 7.0),)),
    "canary": Kind("endpoint", changes=(Change(("gpuminutes_canary_score",), "set", 0.5),)),
    "cache_full": Kind(
        "endpoint",
        changes=(
            Change(("vllm:kv_cache_usage_perc",), "set", 0.99),
            Change(("vllm:num_requests_waiting",), "set", 80.0),
            Change(("vllm:num_preemptions_total",), "rate", 2.0),
        ),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Trouble:
    """A trouble over [start_ms, end_ms) on some nodes; `gpus` alone where its kind is of GPUs."""

    kind: str
    window: Window
    nodes: frozenset[str]
    gpus: frozenset[int] = frozenset(range(GPUS))

    @cached_property
    def of(self) -> Kind:
        """Gives what its kind does."""
        return KINDS[self.kind]

    def silences(self, target: str, at_ms: int) -> bool:
        """Tells whether a target gives no answer at an instant."""
        return target in self.of.silent and self._holds(at_ms)

    def blinds(self, at_ms: int) -> bool:
        """Tells whether nobody scrapes at an instant."""
        return self.of.unwatched and self._holds(at_ms)

    def touches(self, line: Line) -> bool:
        """Tells whether it changes a line at some time."""
        if line.gpu is not None and line.gpu not in self.gpus:
            return False
        counted = line.name == m.GPU_XID_EVENTS.name and line.has({"xid": str(self.of.xid)})
        return counted or any(line.name in change.names and line.has(change.where) for change in self.of.changes)

    def change(self, line: Line, value: float | None, at_ms: int) -> float | None:
        """Gives a line's value under this trouble; None: it is not there."""
        if value is None or (line.gpu is not None and line.gpu not in self.gpus):
            return value
        for change in self.of.changes:
            if value is not None and line.name in change.names and line.has(change.where):
                value = self._changed(change, line, value, at_ms)
        if value is not None and line.name == m.GPU_XID_EVENTS.name and line.has({"xid": str(self.of.xid)}):
            value += float(at_ms >= self.window.start_ms)
        return value

    def lines(self) -> list[Line]:
        """Gives the series that it brings; `shows` says when they are there, and what they say."""
        marks: list[tuple[str, Labels]] = list(self.of.shown)
        if self.of.xid is not None:
            marks.append((m.GPU_XID_LAST.name, (("xid", str(self.of.xid)),)))
        at_s = self.window.start_ms / MS_PER_SECOND
        return [
            Line(name, labels, gpu, (at_s if name == m.GPU_XID_LAST.name else 1.0,))
            for name, labels in marks
            for gpu in sorted(self.gpus)
        ]

    def shows(self, line: Line, at_ms: int) -> bool:
        """Tells whether a series that it brings is there: a mark while it lasts, the time of an XID ever after."""
        return self._holds(at_ms) or (line.name == m.GPU_XID_LAST.name and at_ms >= self.window.end_ms)

    def _holds(self, at_ms: int) -> bool:
        return self.window.start_ms <= at_ms < self.window.end_ms

    def _changed(self, change: Change, line: Line, value: float, at_ms: int) -> float | None:
        passed_ms = min(max(0, at_ms - self.window.start_ms), self.window.length_ms)
        if change.how == "rate":
            return value + change.number * passed_ms / MS_PER_SECOND
        if change.how == "stop":
            return value - line.rise * passed_ms / SCRAPE_MS
        if not self._holds(at_ms):
            return value
        return {"set": change.number, "scale": value * change.number, "add": value + change.number}.get(change.how)


def drawn(rng: random.Random, number: int, window: Window, nodes: Sequence[str], jobs: Mapping[str, Sequence[str]],
          endpoints: Sequence[str]) -> list[Trouble]:  # fmt: skip
    """Gives troubles of chance: every kind in turn, where and when and how long as it falls; they may overlap.

    Args:
        rng: seeded.
        number: how many.
        window: in which they begin.
        nodes: of the fleet.
        jobs: nodes by job.
        endpoints: nodes that serve.
    """
    found = []
    for index in range(number):
        name = sorted(KINDS)[index % len(KINDS)]
        kind = KINDS[name]
        start_ms = rng.randrange(window.start_ms, window.end_ms)
        # From one lost scrape to hours, as many short ones as long ones.
        length_ms = int(10 ** rng.uniform(4.0, 7.0))
        if kind.of == "everyone":
            length_ms = rng.randrange(20_000, 5 * MS_PER_MINUTE)
        hit = {
            "everyone": list(nodes),
            "job": list(jobs[rng.choice(sorted(jobs))]),
            "endpoint": [rng.choice(endpoints)],
        }.get(kind.of, [rng.choice(nodes)])
        gpus = {rng.randrange(GPUS)} if kind.of == "gpu" and rng.random() < 0.7 else set(range(GPUS))
        found.append(Trouble(name, Window(start_ms, start_ms + length_ms), frozenset(hit), frozenset(gpus)))
    return found
