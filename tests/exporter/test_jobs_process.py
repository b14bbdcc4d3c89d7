"""Processes on GPUs: whose they are, where no scheduler says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.allocations.mapping import DIRECTORY
from exporter.allocations.process import LOGS
from exporter.readings import GpuReading, Process
from tests.exporter.jobs import allocated, cycled, gpu, group, holders, node, process, reasons, settings

UID = "0f3e1c8a-52b7-4c0b-9d58-6a1de0a7b2c4"
CONTAINER = "4f" * 32
POD = f"0::/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-{CONTAINER}.scope\n"
SLURM = "0::/system.slice/slurmstepd.scope/job_77/step_0/user/task_0\n"


def reading(number: int, *pids: int) -> GpuReading:
    return GpuReading(gpu(number), None, processes=tuple(Process(pid) for pid in pids))


def test_a_process_shows_its_job_its_pod_or_its_user(tmp_path: Path) -> None:
    procfs = tmp_path / "proc"
    process(procfs, 1, cgroup=SLURM)
    process(procfs, 2, cgroup=POD)
    process(procfs, 3, cgroup="0::/user.slice/user-1000.slice/session-3.scope\n")
    owner = str((procfs / "3").stat().st_uid)
    state = node(*map(gpu, range(4)), readings=(reading(0, 1, 1), reading(1, 2), reading(2, 3), reading(3)))
    collector = cycled(state, settings(tmp_path, {LOGS: tmp_path / "none"}))
    assert holders(collector) == {
        ("a", "slurm", "77", owner, "", "", ""),
        ("b", "k8s", "", "", UID, "", ""),
        ("c", "bare", "", owner, "", "", ""),
    }
    assert allocated(collector) == {"a": 1, "b": 1, "c": 1}
    assert reasons(collector) == {"d": "not_found"}


def test_a_pod_has_its_names_where_the_kubelet_links_its_logs(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / f"train-0_ml_main-{CONTAINER}.log").symlink_to("/nowhere")
    (logs / "junk").write_text("")
    process(tmp_path / "proc", 2, cgroup=POD)
    state = node(gpu(0), readings=(reading(0, 2),))
    assert holders(cycled(state, settings(tmp_path, {LOGS: logs}))) == {("a", "k8s", "", "", "train-0", "ml", "main")}


def test_a_job_under_a_sluid_has_its_number_from_the_environment(tmp_path: Path) -> None:
    process(tmp_path / "proc", 1, {"SLURM_JOB_ID": "77"}, SLURM.replace("job_77", "s5K1KKYAYG5D00"))
    state = node(gpu(0), readings=(reading(0, 1),))
    assert {row[2] for row in holders(cycled(state, settings(tmp_path)))} == {"77"}


@pytest.mark.pain(43)
def test_a_process_that_has_ended_holds_nothing_and_is_counted(tmp_path: Path) -> None:
    process(tmp_path / "proc", 1, cgroup=SLURM)
    state = node(gpu(0), readings=(reading(0, 1, 999),))
    collector = cycled(state, settings(tmp_path))
    assert len(holders(collector)) == 1
    assert collector.health.errors["gone"] == 1
    state.readings = (reading(0, 999),)
    collector.cycle()
    assert holders(collector) == set()
    assert reasons(collector) == {"a": "not_found"}


def test_processes_never_make_a_gpu_free_and_say_nothing_where_a_scheduler_knows(tmp_path: Path) -> None:
    mapping = tmp_path / "mapping"
    mapping.mkdir()
    (mapping / "0").write_text("78\n")
    process(tmp_path / "proc", 1, cgroup=SLURM)
    state = node(gpu(0), gpu(1), readings=(reading(0, 1), reading(1, 1)))
    collector = cycled(state, settings(tmp_path, {DIRECTORY: mapping}))
    assert {row[:3] for row in holders(collector)} == {("a", "slurm", "78")}
    assert allocated(collector) == {"a": 1, "b": 0}


def test_processes_fill_what_slurm_cannot_tell(tmp_path: Path) -> None:
    (tmp_path / "cgroup").mkdir()
    (tmp_path / "cgroup" / "cgroup.controllers").write_text("")
    group(tmp_path / "cgroup" / "system.slice" / "slurmstepd.scope" / "job_77" / "step_0")
    process(tmp_path / "proc", 1, cgroup=SLURM)
    state = node(gpu(0), gpu(1), readings=(reading(0, 1), reading(1)))
    collector = cycled(state, settings(tmp_path))
    assert allocated(collector) == {"a": 1}
    assert {row[:3] for row in holders(collector)} == {("a", "slurm", "77")}
    assert reasons(collector) == {"b": "no_data"}


def test_a_driver_that_gives_no_processes_says_nothing(tmp_path: Path) -> None:
    state = node(gpu(0), readings=(GpuReading(gpu(0), None, processes=None),))
    assert reasons(cycled(state, settings(tmp_path))) == {"a": "not_found"}
