"""Runs one collector by itself and asks what it knows."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, settings
from prometheus_client.parser import text_string_to_metric_families

from exporter import metrics as m
from exporter.collector import Collector, NodeState
from exporter.config import CGROUP, PROCFS, SYSFS, Settings
from exporter.inventory import Inventory
from exporter.metrics import Family
from exporter.readings import Identity
from tests.exporter import harness


def node(*gpus: Identity) -> NodeState:
    """A node whose inventory holds these GPUs."""
    inventory = Inventory()
    inventory.update(gpus)
    return NodeState(inventory, "570.1")


def roots(proc: Path = harness.PROC, sys: Path = harness.SYS, cgroup: Path = harness.CGROUP) -> Settings:
    """Settings that read other trees than the machine's."""
    return Settings({PROCFS: proc, SYSFS: sys, CGROUP: cgroup})


def rows(collector: Collector, family: Family, fresh: bool = True) -> dict[tuple[str, ...], float]:
    """What a collector knows of one family; no row stands twice."""
    found = [(s.labels, s.value) for s in collector.samples(fresh, 0.0) if s.family == family]
    assert len(dict(found)) == len(found)
    return dict(found)


def unavailable(collector: Collector) -> dict[str, str]:
    """Reason by field that a collector says it cannot give."""
    return {labels[2]: labels[3] for labels in rows(collector, m.FIELD_UNAVAILABLE)}


def put(path: Path, text: str | bytes) -> Path:
    """Writes a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


LAW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For a law that holds on a busy machine too."""

NODE_EXPORTER = harness.HERE / "data" / "node_exporter"


def expected(*names: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """What node_exporter says of the files in data/node_exporter/proc, by name and labels."""
    text = (NODE_EXPORTER / "expected.prom").read_text()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name in names
    }
