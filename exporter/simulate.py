"""A fleet that does not exist, on pages that are built by the code of a real node.

A pure function of the scenario and the time since the start: two runs of one scenario agree in every reading,
whoever scrapes and how often. What is simulated says so: `EXPORTER_INFO` carries mode="simulated", the model
name and the landing page likewise.
"""

from __future__ import annotations

import json
import math
import random
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from exporter import __version__
from exporter.allocation import Holder
from exporter.collector import Health, health_samples
from exporter.collectors import discover
from exporter.gpus import allocation_samples, count_samples, gpu_samples, place_gpus, worker_samples
from exporter.metrics import NODE_INFO
from exporter.page import render
from exporter.readings import NVML_SUCCESS, GpuReading, Identity, NvmlSnapshot, Sample, XidEvent
from exporter.runner import exporter_sample
from exporter.scenario import Scenario, read_scenario
from exporter.server import App, Response, landing, text
from exporter.simulated_activity import activity_values, running
from exporter.simulated_board import UNAVAILABLE
from exporter.simulated_gpu import DRIVER, GpuTimeline, gpu_values
from exporter.simulated_node import NodeLoad, node_samples
from exporter.verdict import Verdict
from exporter.web.formats import choose_format
from exporter.web.landing import Landing
from exporter.xid_line import OFF_THE_BUS
from exporter.xids import XidCounts, XidTimes

__all__ = ["Fleet", "FleetApp", "read_scenario"]

_NAMESPACE = uuid.UUID("6f1f6f0a-8f4e-5d0b-9a5e-3f0c7a1f7d11")
_HOST = re.compile(r"[A-Za-z0-9.:\[\]_-]{1,255}")


@dataclass(frozen=True, slots=True)
class _Node:
    """One simulated node: its GPUs and what happens to each."""

    name: str
    job: str | None
    gpus: tuple[Identity, ...]
    timelines: tuple[GpuTimeline, ...]
    load: NodeLoad


@dataclass(frozen=True, slots=True)
class Host:
    """What node_exporter says of a node: Unix time of its boot, mean number of running processes of a minute."""

    boot_time_s: float
    load1: float


class Fleet:
    """The nodes of a scenario.

    Args:
        scenario: what they are and what goes wrong.
        started_s: Unix time of the start, for the timestamps on the pages.
    """

    def __init__(self, scenario: Scenario, started_s: float) -> None:
        self._scenario = scenario
        self._started_s = started_s
        self._reasons = {name: collector.reasons for name, collector in discover().items()}
        self._nodes = {name: self._make_node(name) for name in scenario.nodes}

    @property
    def names(self) -> tuple[str, ...]:
        """Node names, in file order."""
        return tuple(self._nodes)

    def _uuid(self, *parts: object) -> str:
        return str(uuid.uuid5(_NAMESPACE, "/".join(map(str, (self._scenario.seed, *parts)))))

    def _make_node(self, name: str) -> _Node:
        scenario = self._scenario
        job = scenario.job_by_node.get(name)
        gpus: list[Identity] = []
        timelines: list[GpuTimeline] = []
        for index in range(scenario.gpus_per_node):
            rng = random.Random(f"{scenario.seed}/{name}/{index}")
            gpus.append(
                Identity(
                    uuid=f"GPU-{self._uuid(name, index)}",
                    slot=f"0000:{0x19 + 0x0E * index:02x}:00",
                    index=index,
                    model=scenario.model,
                    serial=f"SIM{rng.randrange(10**10):010d}",
                    vbios="96.00.74.00.01",
                    driver=DRIVER,
                    cuda="13.0",
                    mig_mode="disabled",
                    persistence="enabled",
                    minor=index,
                )
            )
            timelines.append(GpuTimeline(scenario, name, index, job is not None, rng))
        stall_rate = random.Random(f"{scenario.seed}/{name}").uniform(0.002, 0.01)
        first = min((other for other, its in scenario.job_by_node.items() if its == job), default="")
        load = NodeLoad(job, timelines, stall_rate, loads_hang=name == first)
        return _Node(name, job, tuple(gpus), tuple(timelines), load)

    def samples(self, name: str, at_s: float) -> list[Sample] | None:
        """The page of a node.

        Args:
            name: a node of the scenario.
            at_s: seconds since the start.

        Returns:
            None while the node is down.
        """
        node = self._nodes[name]
        if node.timelines[0].mode(at_s) == "node_down":
            return None
        return list(self._samples(node, at_s))

    def host(self, name: str, at_s: float) -> Host | None:
        """The second witness of a node.

        Args:
            name: a node of the scenario.
            at_s: seconds since the start.

        Returns:
            None while the node is down.
        """
        node = self._nodes[name]
        if node.timelines[0].mode(at_s) == "node_down":
            return None
        boots, boot_s = node.timelines[0].resets("node_down", at_s)
        # Before its first fault a node has been up for a while: hours, the same ones on every page.
        before_s = 0.0 if boots else random.Random(f"{self._scenario.seed}/{name}/boot").uniform(3_600.0, 360_000.0)
        # One process a GPU where a job runs; a wave of a minute, so that the reading moves.
        busy = float(len(node.gpus)) if node.job is not None else 0.1
        load1 = busy * (1.0 + 0.1 * math.sin(2 * math.pi * at_s / 60.0))
        return Host(round(self._started_s + boot_s - before_s), round(load1, 2))

    def _samples(self, node: _Node, at_s: float) -> Iterator[Sample]:
        boots, boot_s = node.timelines[0].resets("node_down", at_s)
        yield exporter_sample("simulated")
        for name, reasons in self._reasons.items():
            health = Health(name, errors=dict.fromkeys((*reasons, "internal"), 0))
            health.last_success_s = self._started_s + at_s
            health.duration_s, health.finished_s = 0.001, at_s
            yield from health_samples(health, fresh=True)
        yield from worker_samples(0.0, NVML_SUCCESS)
        facts = (node.name, self._uuid(node.name, "boot", boots), "6.8.0-simulated", DRIVER)
        yield Sample(NODE_INFO, facts, 1.0)
        yield from node_samples(node.load, boot_s, at_s)
        readings = place_gpus(node.gpus, self._snapshot(node, at_s), None)
        visible = sum(reading.down is None for reading in readings)
        yield from count_samples(len(readings), visible)
        yield from gpu_samples(readings)
        yield from self._xids(node, boot_s, at_s)
        verdict = Verdict(False) if node.job is None else Verdict(True, (Holder("slurm", node.job),))
        yield from allocation_samples(node.gpus, {gpu.uuid: verdict for gpu in node.gpus})

    def _snapshot(self, node: _Node, at_s: float) -> NvmlSnapshot:
        gpus: list[GpuReading] = []
        for index, (identity, timeline) in enumerate(zip(node.gpus, node.timelines, strict=True)):
            if timeline.mode(at_s) == "gpu_lost":
                gpus.append(GpuReading(identity, "lost"))
            else:
                values = (*gpu_values(timeline, at_s), *activity_values(timeline, at_s))
                processes = running(timeline, index)
                gpus.append(GpuReading(identity, None, values, UNAVAILABLE, processes))
        return NvmlSnapshot(NVML_SUCCESS, DRIVER, tuple(gpus))

    def _xids(self, node: _Node, boot_s: float, at_s: float) -> Iterator[Sample]:
        """Every loss of a GPU since the node came up, as the exporter of that node would remember it.

        The driver and the kernel's log tell the same ones: a real node has both sources.
        """
        times = XidTimes()
        sources = (XidCounts("kmsg", times), XidCounts("nvml", times))
        for identity, timeline in zip(node.gpus, node.timelines, strict=True):
            for onset_s in timeline.onsets("gpu_lost", boot_s, at_s):
                seen_s = self._started_s + onset_s
                for counts in sources:
                    counts.add(XidEvent(identity.uuid, identity.slot, OFF_THE_BUS, seen_s))
        for counts in sources:
            yield from counts.samples(node.gpus)
        yield from times.samples()


class _HostPage(Collector):
    """A host in the shape that prometheus_client's writer wants; names and help texts are node_exporter's own."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily("node_boot_time_seconds", "Node boot time, in unixtime.", self._host.boot_time_s)
        yield GaugeMetricFamily("node_load1", "1m load average.", self._host.load1)


class FleetApp(App):
    """Serves every node of a fleet from one process.

    Args:
        scenario: the fleet.
        clock: monotonic seconds.
        wall: Unix seconds.
    """

    def __init__(
        self,
        scenario: Scenario,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._began_s = clock()
        self._fleet = Fleet(scenario, wall())
        self._path_by_node = {name: f"/node/{name}/metrics" for name in self._fleet.names}
        self._node_by_path = {path: name for name, path in self._path_by_node.items()}
        self._host_path_by_node = {name: f"/node/{name}/host" for name in self._fleet.names}
        self._node_by_host_path = {path: name for name, path in self._host_path_by_node.items()}

    def respond(self, path: str, headers: Mapping[str, str]) -> Response | None:
        """A node's pages (no answer at all while it is down), the target lists, the landing page."""
        at_s = self._clock() - self._began_s
        accept = headers.get("accept", "")
        if path in self._node_by_path:
            samples = self._fleet.samples(self._node_by_path[path], at_s)
            return None if samples is None else _page(render(samples, accept))
        if path in self._node_by_host_path:
            host = self._fleet.host(self._node_by_host_path[path], at_s)
            return None if host is None else _page(_render_host(host, accept))
        if path == "/targets":
            return self._targets(headers.get("host", ""), self._path_by_node)
        if path == "/targets/host":
            return self._targets(headers.get("host", ""), self._host_path_by_node)
        if path in ("/-/healthy", "/-/ready"):
            return text(200, "ok")
        if path == "/":
            links = {"/targets": "Targets for Prometheus http_sd", "/targets/host": "The same for the hosts' own pages"}
            links |= _titles(self._path_by_node)
            about = (f"Every node of a scenario, from one process. Version {__version__}.",)
            note = "SIMULATED: none of these nodes and GPUs exists."
            return landing(Landing("GPU Minutes exporter: simulated fleet", about, links, note))
        return text(404, "not found; nodes are at /node/NAME/metrics")

    def _targets(self, host: str, path_by_node: Mapping[str, str]) -> Response:
        """Prometheus HTTP service discovery, under the address by which it was asked for."""
        if not _HOST.fullmatch(host):
            return text(400, "the request names no host")
        groups = [
            {"targets": [host], "labels": {"__metrics_path__": path, "node": name}}
            for name, path in path_by_node.items()
        ]
        return Response(200, "application/json", json.dumps(groups).encode())


def _render_host(host: Host, accept: str) -> tuple[bytes, str]:
    encoder, content_type = choose_format(accept)
    return encoder(_HostPage(host)), content_type


def _page(rendered: tuple[bytes, str]) -> Response:
    body, content_type = rendered
    return Response(200, content_type, body)


def _titles(path_by_node: Mapping[str, str]) -> dict[str, str]:
    return {path: f"{name} (simulated)" for name, path in path_by_node.items()}
