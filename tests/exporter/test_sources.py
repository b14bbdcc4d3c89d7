"""Collectors and stores that need no driver: pressure, host facts, inventory, placing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from exporter import metrics as m
from exporter.collector import Collector, NodeState
from exporter.collectors.host import HostCollector
from exporter.collectors.psi import PsiCollector
from exporter.config import PROCFS, Settings
from exporter.errors import CollectError, ConfigError, Reason
from exporter.gpus import place_gpus
from exporter.inventory import Inventory
from exporter.metrics import Family
from exporter.readings import GpuReading, Identity, NvmlSnapshot
from exporter.runner import Runner
from tests.exporter.harness import PROC

A = Identity("GPU-a", "0000:19:00", 0)
B = Identity("GPU-b", "0000:27:00", 1)


def rows(collector: Collector, family: Family, fresh: bool = True) -> dict[tuple[str, ...], float]:
    """What a collector knows of one family."""
    return {s.labels: s.value for s in collector.samples(fresh, 0.0) if s.family == family}


def node(*gpus: Identity) -> NodeState:
    inventory = Inventory()
    inventory.update(gpus)
    return NodeState(inventory, "570.1")


# --- pressure --------------------------------------------------------------------------------------------
def test_pressure_is_read_in_seconds() -> None:
    collector = PsiCollector(Settings({PROCFS: PROC}), node())
    collector.cycle()
    found = rows(collector, m.NODE_PRESSURE_STALL)
    assert found["io", "some"] == 98.765432
    assert found["memory", "full"] == 0.000125
    assert len(found) == 6
    assert rows(collector, m.NODE_PRESSURE_STALL, fresh=False) == {}


def test_a_kernel_without_pressure_files_is_no_failure(tmp_path: Path) -> None:
    collector = PsiCollector(Settings({PROCFS: tmp_path}), node())
    collector.cycle()
    assert rows(collector, m.NODE_PRESSURE_STALL) == {}
    assert set(rows(collector, m.FIELD_UNAVAILABLE)) == {
        ("", "", f"node_pressure_stall_seconds_total/{resource}", "not_supported")
        for resource in ("cpu", "io", "memory")
    }


def test_a_pressure_file_in_another_format_fails_the_cycle(tmp_path: Path) -> None:
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure" / "cpu").write_text("some 1 2 3\n")
    with pytest.raises(CollectError, match="no total="):
        PsiCollector(Settings({PROCFS: tmp_path}), node()).cycle()


# --- host ------------------------------------------------------------------------------------------------
def test_host_facts() -> None:
    collector = HostCollector(Settings({PROCFS: PROC}), node())
    collector.cycle()
    facts = ("gpu-node-17", "3b6ab6f5-8f0c-4a56-9e4e-0d6f2f6a9c11", "6.8.0-45-generic", "570.1")
    assert rows(collector, m.NODE_INFO) == {facts: 1.0}
    assert rows(collector, m.NODE_INFO, fresh=False) == {}


def test_missing_host_facts_fail_the_cycle(tmp_path: Path) -> None:
    with pytest.raises(CollectError):
        HostCollector(Settings({PROCFS: tmp_path}), node()).cycle()


# --- inventory -------------------------------------------------------------------------------------------
def test_the_inventory_survives_and_a_swapped_gpu_takes_its_slot(tmp_path: Path) -> None:
    path = tmp_path / "inventory.json"
    Inventory(path).update([A, B])
    swapped = Identity("GPU-new", B.slot, 1)
    inventory = Inventory(path)
    assert inventory.gpus == (A, B)
    inventory.update([swapped])
    assert Inventory(path).gpus == (A, swapped)


def test_a_gpu_that_moved_leaves_its_old_slot() -> None:
    inventory = Inventory()
    inventory.update([A, B])
    moved = Identity(A.uuid, "0000:99:00", 0)
    inventory.update([moved])
    assert inventory.gpus == (B, moved)


def test_a_write_that_failed_is_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    inventory = Inventory(folder / "inventory.json")
    folder.rmdir()
    with pytest.raises(OSError, match="No such file"):
        inventory.update([A])
    assert inventory.gpus == (A,)
    folder.mkdir()
    inventory.update([A])
    assert Inventory(folder / "inventory.json").gpus == (A,)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no folder"):
        Inventory(tmp_path / "gone" / "inventory.json")


def test_nothing_new_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "inventory.json"
    inventory = Inventory(path)
    inventory.update([A])
    path.unlink()
    inventory.update([A])
    assert not path.exists()
    inventory.update([B])
    assert len(json.loads(path.read_text())["gpus"]) == 2


# --- placing ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("unidentified", "reason"),
    [
        (((1, "lost"),), "lost"),
        ((), "missing"),
        (((1, "lost"), (2, "lost")), "missing"),
        (((1, "lost"), (2, "unknown")), "missing"),
    ],
)
def test_a_gpu_that_could_not_be_asked_gets_a_reason(
    unidentified: tuple[tuple[int, Reason], ...], reason: Reason
) -> None:
    snapshot = NvmlSnapshot(0, "570.1", (GpuReading(A, None),), unidentified)
    placed = place_gpus((A, B), snapshot, None)
    assert [reading.down for reading in placed] == [None, reason]


# --- runner ----------------------------------------------------------------------------------------------
class _Broken(PsiCollector):
    """A collector with a defect in both halves, made of a real one."""

    def cycle(self) -> None:
        raise ZeroDivisionError

    def samples(self, fresh: bool, now_s: float) -> list[m.Family]:  # type: ignore[override]  # the defect
        raise ZeroDivisionError


def test_a_defect_in_one_collector_costs_its_own_lines_alone() -> None:
    settings, state = Settings({PROCFS: PROC}), node()
    broken, host = _Broken(settings, state), HostCollector(settings, state)
    runner = Runner([broken, host])
    runner.start(once=True)
    runner.wait_first_cycle()
    found = {(s.family.name, s.labels): s.value for s in runner.samples()}
    runner.stop()
    assert found[m.COLLECT_SUCCESS.name, ("psi",)] == 0
    assert found[m.COLLECT_SUCCESS.name, ("host",)] == 1
    assert found[m.COLLECT_ERRORS.name, ("psi", "internal")] >= 1
    assert any(name == m.NODE_INFO.name for name, _ in found)
