"""Collectors and stores that need no driver: host facts, placing."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter import metrics as m
from exporter.collectors.host import HostCollector
from exporter.collectors.psi import PsiCollector
from exporter.config import PROCFS, Settings
from exporter.errors import CollectError, Reason
from exporter.gpus import place_gpus
from exporter.readings import GpuReading, Identity, NvmlSnapshot
from exporter.runner import Runner
from tests.exporter.collecting import node, rows
from tests.exporter.harness import PROC

A = Identity("GPU-a", "0000:19:00", 0)
B = Identity("GPU-b", "0000:27:00", 1)


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


# --- placing ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("unidentified", "reason"),
    [
        (((1, "lost"),), "lost"),
        ((), "missing"),
        (((1, "lost"), (2, "lost")), "missing"),
        (((1, "lost"), (2, "unknown")), "unknown"),
        (((1, "lost"), (2, "reset_required")), "missing"),
        (((1, "no_permission"),), "unknown"),
        (((B.slot, "reset_required"),), "reset_required"),
        (((B.slot, "timeout"), ("0000:99:00", "lost")), "timeout"),
    ],
)
def test_a_gpu_that_could_not_be_asked_gets_a_reason(
    unidentified: tuple[tuple[int | str, Reason], ...], reason: Reason
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
    runner = Runner([broken, host], state)
    runner.start(once=True)
    runner.wait_first_cycle()
    found = {(s.family.name, s.labels): s.value for s in runner.samples()}
    runner.stop()
    assert found[m.COLLECT_SUCCESS.name, ("psi",)] == 0
    assert found[m.COLLECT_SUCCESS.name, ("host",)] == 1
    assert found[m.COLLECT_ERRORS.name, ("psi", "internal")] >= 1
    assert any(name == m.NODE_INFO.name for name, _ in found)
