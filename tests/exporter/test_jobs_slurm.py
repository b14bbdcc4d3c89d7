"""Jobs of Slurm: which GPUs a control group and the environment of its processes name, and what stays unknown."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from exporter.allocations.mapping import DIRECTORY
from exporter.allocations.slurm import CONTAIN, NUMBERS, SLURM
from exporter.collector import NodeState
from tests.exporter.jobs import (
    allocated,
    cycled,
    gpu,
    group,
    holders,
    node,
    open_folder,
    plain_user,
    process,
    reasons,
    settings,
)

SCOPE = "system.slice/slurmstepd.scope"


def four() -> NodeState:
    return node(*map(gpu, range(4)))


def unified(folder: Path) -> Path:
    """An empty Slurm on cgroup v2; gives the folder of its jobs."""
    root = folder / "cgroup"
    root.mkdir()
    (root / "cgroup.controllers").write_text("cpu io memory\n")
    group(root / SCOPE / "system", 1)
    return root / SCOPE


def batch(folder: Path, job: str, pid: int, **environ: str) -> Path:
    """A job with a batch script in process `pid`, as v2 shows it; gives its control group."""
    job_folder = folder / "cgroup" / SCOPE / f"job_{job}"
    group(job_folder / "step_extern" / "user" / "task_special", pid + 1)
    group(job_folder / "step_batch" / "slurm", pid - 1)
    group(job_folder / "step_batch" / "user" / "task_0", pid)
    process(folder / "proc", pid - 1, {"PATH": "/bin"})
    process(folder / "proc", pid, {"SLURM_JOB_ID": job, **environ})
    return job_folder


@pytest.mark.pain(41)
def test_a_job_holds_its_gpus_until_its_control_group_ends_with_or_without_a_process(tmp_path: Path) -> None:
    unified(tmp_path)
    job = batch(tmp_path, "77", 500, SLURM_JOB_GPUS="0,2", CUDA_VISIBLE_DEVICES="0,1")
    collector = cycled(four(), settings(tmp_path))
    assert allocated(collector) == {"a": 1, "b": 0, "c": 1, "d": 0}
    assert {row[:3] for row in holders(collector)} == {("a", "slurm", "77"), ("c", "slurm", "77")}
    for procs in job.rglob("cgroup.procs"):
        procs.write_text("")
    shutil.rmtree(tmp_path / "proc")
    collector.cycle()
    assert allocated(collector) == {"a": 1, "b": 0, "c": 1, "d": 0}
    shutil.rmtree(job)
    collector.cycle()
    assert allocated(collector) == dict.fromkeys("abcd", 0)
    assert holders(collector) == set()


def test_the_user_is_the_owner_of_the_process_as_a_number(tmp_path: Path) -> None:
    unified(tmp_path)
    batch(tmp_path, "77", 500, SLURM_JOB_GPUS="1")
    owner = (tmp_path / "proc" / "500").stat().st_uid
    assert holders(cycled(four(), settings(tmp_path))) == {("b", "slurm", "77", str(owner), "", "", "")}


def test_a_job_that_runs_again_is_read_again(tmp_path: Path) -> None:
    unified(tmp_path)
    job = batch(tmp_path, "77", 500, SLURM_JOB_GPUS="0")
    collector = cycled(four(), settings(tmp_path))
    keeper = batch(tmp_path, "78", 600, SLURM_JOB_GPUS="3")
    job.rename(tmp_path / "ended")  # so that its number cannot be given to the next folder
    batch(tmp_path, "77", 700, SLURM_JOB_GPUS="1")
    collector.cycle()
    assert allocated(collector) == {"a": 0, "b": 1, "c": 0, "d": 1}
    assert keeper.is_dir()


def test_a_step_says_at_least_its_gpus_and_leaves_the_others_unknown(tmp_path: Path) -> None:
    """The batch script runs on another node, so SLURM_JOB_GPUS was inherited from there."""
    scope = unified(tmp_path)
    group(scope / "job_77" / "step_extern")
    group(scope / "job_77" / "step_0" / "user" / "task_0", 501)
    process(tmp_path / "proc", 501, {"SLURM_JOB_ID": "77", "SLURM_JOB_GPUS": "0", "SLURM_STEP_GPUS": "1,2"})
    collector = cycled(four(), settings(tmp_path))
    assert allocated(collector) == {"b": 1, "c": 1}
    assert reasons(collector) == {"a": "no_data", "d": "no_data"}
    shutil.rmtree(scope / "job_77" / "step_0")
    group(scope / "job_77" / "step_1" / "user" / "task_0", 502)
    process(tmp_path / "proc", 502, {"SLURM_JOB_ID": "77", "SLURM_STEP_GPUS": "3"})
    collector.cycle()
    assert allocated(collector) == {"b": 1, "c": 1, "d": 1}


def test_a_job_without_gpus_holds_none(tmp_path: Path) -> None:
    unified(tmp_path)
    batch(tmp_path, "77", 500)
    assert allocated(cycled(four(), settings(tmp_path))) == dict.fromkeys("abcd", 0)


@pytest.mark.parametrize(
    ("environ", "reason"),
    [
        ({"CUDA_VISIBLE_DEVICES": "0", "SLURM_SHARDS_ON_NODE": "4"}, "not_supported"),
        ({"CUDA_VISIBLE_DEVICES": "0"}, "not_supported"),
        ({"SLURM_GPUS_ON_NODE": "1"}, "not_supported"),
        ({"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"}, "not_supported"),
        ({"SLURM_JOB_GPUS": "gpu:a"}, "format"),
        ({"SLURM_JOB_GPUS": "0,,1"}, "format"),
        ({"SLURM_JOB_ID": "9"}, "no_data"),
    ],
)
def test_a_job_whose_gpus_nobody_tells_leaves_all_unknown(tmp_path: Path, environ: dict[str, str], reason: str) -> None:
    unified(tmp_path)
    batch(tmp_path, "77", 500, **environ)
    collector = cycled(four(), settings(tmp_path))
    assert allocated(collector) == {}
    assert reasons(collector) == dict.fromkeys("abcd", reason)
    assert holders(collector) == set()


def test_a_job_without_a_process_yet_leaves_all_unknown_but_those_of_others(tmp_path: Path) -> None:
    scope = unified(tmp_path)
    batch(tmp_path, "77", 500, SLURM_JOB_GPUS="3")
    group(scope / "job_78")
    collector = cycled(four(), settings(tmp_path))
    assert allocated(collector) == {"d": 1}
    assert reasons(collector) == dict.fromkeys("abc", "no_data")


def test_an_environment_that_may_not_be_read_is_unknown_and_counted() -> None:
    with open_folder() as folder:
        unified(folder)
        batch(folder, "77", 500, SLURM_JOB_GPUS="0")
        (folder / "proc" / "500" / "environ").chmod(0)
        with plain_user():
            collector = cycled(four(), settings(folder))
        assert reasons(collector) == dict.fromkeys("abcd", "no_permission")
        assert collector.health.errors["no_permission"] == 1
        (folder / "proc" / "500" / "environ").chmod(0o644)
        collector.cycle()
        assert allocated(collector) == {"a": 1, "b": 0, "c": 0, "d": 0}


def test_free_needs_proof_that_every_job_has_a_control_group(tmp_path: Path) -> None:
    scope = unified(tmp_path)
    collector = cycled(four(), settings(tmp_path))
    assert reasons(collector) == dict.fromkeys("abcd", "no_data")
    assert allocated(cycled(four(), settings(tmp_path, {CONTAIN: True}))) == dict.fromkeys("abcd", 0)
    shutil.rmtree(batch(tmp_path, "77", 500) / "step_extern")
    collector.cycle()
    assert reasons(collector) == dict.fromkeys("abcd", "no_data")
    batch(tmp_path, "78", 600)
    collector.cycle()
    assert allocated(collector) == dict.fromkeys("abcd", 0)
    shutil.rmtree(scope / "job_77")
    shutil.rmtree(scope / "job_78")
    collector.cycle()
    assert allocated(collector) == dict.fromkeys("abcd", 0)


def test_a_folder_named_by_sluid_is_a_job_and_one_of_another_name_is_a_doubt(tmp_path: Path) -> None:
    scope = unified(tmp_path)
    batch(tmp_path, "77", 500, SLURM_JOB_GPUS="0").rename(scope / "s5K1KKYAYG5D00")
    collector = cycled(four(), settings(tmp_path))
    assert {row[:3] for row in holders(collector)} == {("a", "slurm", "77")}
    assert allocated(collector) == {"a": 1, "b": 0, "c": 0, "d": 0}
    (scope / "job-as-in-2031").mkdir()
    collector.cycle()
    assert allocated(collector) == {"a": 1}
    assert reasons(collector) == dict.fromkeys("bcd", "format")


# --- numbers ---------------------------------------------------------------------------------------------
def swapped() -> NodeState:
    """Indices 0 to 3 with minor numbers 0, 2, 1, 3."""
    return node(gpu(0), gpu(1, minor=2), gpu(2, minor=1), gpu(3))


@pytest.mark.parametrize(
    ("numbers", "numbering", "held", "unknown"),
    [
        ("0", "auto", "a", ""),
        ("1", "auto", "", "bc"),
        ("1,2", "auto", "bc", ""),
        ("0,1", "auto", "a", "bc"),
        ("0,1,2,3", "auto", "abcd", ""),
        ("1", "index", "b", ""),
        ("1", "minor", "c", ""),
    ],
)
def test_a_number_counts_where_both_readings_of_it_agree(
    tmp_path: Path, numbers: str, numbering: str, held: str, unknown: str
) -> None:
    unified(tmp_path)
    batch(tmp_path, "77", 500, SLURM_JOB_GPUS=numbers)
    collector = cycled(swapped(), settings(tmp_path, {NUMBERS: numbering}))
    assert {uuid for uuid, value in allocated(collector).items() if value} == set(held)
    assert reasons(collector) == dict.fromkeys(unknown, "unknown_device")


def test_without_minor_numbers_only_a_whole_node_is_sure(tmp_path: Path) -> None:
    unified(tmp_path)
    batch(tmp_path, "77", 500, SLURM_JOB_GPUS="0,1")
    two, three = [gpu(0, minor=-1), gpu(1, minor=-1)], [gpu(number, minor=-1) for number in range(3)]
    assert allocated(cycled(node(*two), settings(tmp_path))) == {"a": 1, "b": 1}
    collector = cycled(node(*three), settings(tmp_path))
    assert allocated(collector) == {}
    assert reasons(collector) == dict.fromkeys("abc", "unknown_device")
    assert allocated(cycled(node(*three), settings(tmp_path, {NUMBERS: "index"}))) == {"a": 1, "b": 1, "c": 0}


@pytest.mark.pain(40)
def test_with_mig_on_slurms_numbers_count_mig_devices_and_say_nothing(tmp_path: Path) -> None:
    unified(tmp_path)
    batch(tmp_path, "77", 500, SLURM_JOB_GPUS="0")
    collector = cycled(node(gpu(0, mig_mode="enabled"), gpu(1)), settings(tmp_path))
    assert reasons(collector) == {"a": "not_supported", "b": "not_supported"}


# --- cgroup v1 -------------------------------------------------------------------------------------------
def v1_job(folder: Path, devices: str, pid: int = 500, **environ: str) -> None:
    """A job under the controllers of v1."""
    for controller in ("devices", "memory"):
        group(folder / "cgroup" / controller)
        job = group(folder / "cgroup" / controller / "slurm" / "uid_1001" / "job_77")
        group(job / "step_extern")
        group(job / "step_batch" / "task_0", pid)
        (job / "devices.list").write_text(devices)
    process(folder / "proc", pid, {"SLURM_JOB_ID": "77", **environ})


@pytest.mark.pain(41)
def test_v1_lists_the_devices_by_minor_number(tmp_path: Path) -> None:
    v1_job(tmp_path, "c 1:3 rwm\nc 195:2 rwm\nc 195:255 rwm\nc 195:254 rwm\nb 195:3 r\nc 136:* rwm\n")
    collector = cycled(swapped(), settings(tmp_path))
    assert allocated(collector) == {"a": 0, "b": 1, "c": 0, "d": 0}
    assert holders(collector) == {("b", "slurm", "77", "1001", "", "", "")}


@pytest.mark.parametrize("devices", ["a *:* rwm\n", "c 195:* rwm\n", "c *:* rwm\n", ""])
def test_a_v1_list_that_keeps_nothing_away_says_nothing_and_the_environment_is_asked(
    tmp_path: Path, devices: str
) -> None:
    v1_job(tmp_path, devices, SLURM_JOB_GPUS="3")
    assert allocated(cycled(four(), settings(tmp_path))) == {"a": 0, "b": 0, "c": 0, "d": 1}


def test_a_v1_list_with_a_minor_that_no_gpu_shows_may_be_a_gpu_without_one(tmp_path: Path) -> None:
    v1_job(tmp_path, "c 195:5 rwm\n")
    collector = cycled(node(gpu(0), gpu(1, minor=-1)), settings(tmp_path))
    assert allocated(collector) == {"a": 0}
    assert reasons(collector) == {"b": "unknown_device"}


# --- settings --------------------------------------------------------------------------------------------
def test_with_a_mapping_folder_slurm_is_left_out_unless_asked_for(tmp_path: Path) -> None:
    unified(tmp_path)
    batch(tmp_path, "77", 500, SLURM_JOB_GPUS="0")
    mapping = tmp_path / "mapping"
    mapping.mkdir()
    (mapping / "1").write_text("78\n")
    both = {DIRECTORY: mapping, SLURM: "on"}
    assert allocated(cycled(four(), settings(tmp_path, {DIRECTORY: mapping}))) == {"a": 0, "b": 1, "c": 0, "d": 0}
    assert allocated(cycled(four(), settings(tmp_path, both))) == {"a": 1, "b": 1, "c": 0, "d": 0}
    assert reasons(cycled(four(), settings(tmp_path, {SLURM: "off"}))) == dict.fromkeys("abcd", "not_found")


def test_one_job_from_two_sources_is_one_row_with_its_user(tmp_path: Path) -> None:
    v1_job(tmp_path, "c 195:0 rwm\n")
    (tmp_path / "0").write_text("77\n")
    collector = cycled(four(), settings(tmp_path, {DIRECTORY: tmp_path, SLURM: "on"}))
    assert holders(collector) == {("a", "slurm", "77", "1001", "", "", "")}


@examples(max_examples=50, deadline=None)
@given(environ=st.binary(max_size=300), devices=st.binary(max_size=60) | st.text("c195:* rwm\n", max_size=30))
def test_no_content_breaks_a_cycle(environ: bytes, devices: bytes | str) -> None:
    with open_folder() as folder:
        v1_job(folder, "")
        process(folder / "proc", 500, environ)
        content = devices if isinstance(devices, bytes) else devices.encode()
        (folder / "cgroup" / "devices" / "slurm" / "uid_1001" / "job_77" / "devices.list").write_bytes(content)
        collector = cycled(four(), settings(folder))
        said, unsaid = allocated(collector), reasons(collector)
        assert not set(said) & set(unsaid)
        assert set(said) | set(unsaid) == set("abcd")


@examples(max_examples=50, deadline=None)
@given(environ=st.binary(max_size=300), devices=st.binary(max_size=60))
def test_a_job_of_which_nothing_makes_sense_frees_no_gpu(environ: bytes, devices: bytes) -> None:
    assume(b"SLURM_JOB_ID=77" not in environ)
    with open_folder() as folder:
        v1_job(folder, "")
        process(folder / "proc", 500, environ)
        job = folder / "cgroup" / "devices" / "slurm" / "uid_1001" / "job_77"
        (job / "devices.list").write_bytes(b"a *:* rwm\n" + devices)
        assert allocated(cycled(four(), settings(folder))) == {}
