"""Collectors and stores that need no driver: host facts, jobs, placing."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter import metrics as m
from exporter.collectors.host import HostCollector
from exporter.collectors.job import DIRECTORY, JobCollector, read_jobs
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


# --- jobs ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("content", "jobs"),
    [(b"", ()), (b"\n\n", ()), (b"12\n", ("12",)), (b"12\r\n 13 \n12\n", ("12", "13")), (b"12_3", ("12_3",))],
)
def test_job_files(tmp_path: Path, content: bytes, jobs: tuple[str, ...]) -> None:
    path = tmp_path / "0"
    path.write_bytes(content)
    assert read_jobs(path) == jobs


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"a b\n", b"\x00", b"1\n" * 40_000])
def test_files_that_hold_no_job_ids_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "0"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"job id|larger|ascii"):
        read_jobs(path)


def test_a_file_that_vanished_means_free(tmp_path: Path) -> None:
    assert read_jobs(tmp_path / "7") == ()


def test_allocation_is_known_by_index_and_uuid_and_unknown_where_the_file_is_broken(tmp_path: Path) -> None:
    c = Identity("GPU-c", "0000:35:00", 2)
    d = Identity("GPU-d", "0000:43:00", 3)
    (tmp_path / "0").write_text("77\n")
    (tmp_path / "GPU-b").write_text("77\n78\n77\n")
    (tmp_path / "2").write_bytes(b"\xff")
    (tmp_path / "README").write_bytes(b"\xff")
    collector = JobCollector(Settings({DIRECTORY: tmp_path}), node(A, B, c, d))
    collector.cycle()
    allocated = {uuid: value for (uuid, _), value in rows(collector, m.GPU_ALLOCATED).items()}
    assert allocated == {"GPU-a": 1, "GPU-b": 1, "GPU-d": 0}
    jobs = {(labels[0], labels[2], labels[3]) for labels in rows(collector, m.GPU_WORKLOAD_INFO)}
    assert jobs == {("GPU-a", "slurm", "77"), ("GPU-b", "slurm", "77"), ("GPU-b", "slurm", "78")}
    assert set(rows(collector, m.FIELD_UNAVAILABLE)) == {("GPU-c", c.slot, "gpu_allocated", "format")}
    assert collector.health.errors["format"] == 1


def test_no_folder_named_is_unknown_and_a_missing_one_is_a_failure(tmp_path: Path) -> None:
    collector = JobCollector(Settings(), node(A))
    collector.cycle()
    assert list(collector.samples(True, 0.0)) == []
    with pytest.raises(CollectError):
        JobCollector(Settings({DIRECTORY: tmp_path / "gone"}), node(A)).cycle()


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
    runner = Runner([broken, host], state)
    runner.start(once=True)
    runner.wait_first_cycle()
    found = {(s.family.name, s.labels): s.value for s in runner.samples()}
    runner.stop()
    assert found[m.COLLECT_SUCCESS.name, ("psi",)] == 0
    assert found[m.COLLECT_SUCCESS.name, ("host",)] == 1
    assert found[m.COLLECT_ERRORS.name, ("psi", "internal")] >= 1
    assert any(name == m.NODE_INFO.name for name, _ in found)
