"""The mapping folder: what a file says, and what no file may break."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from exporter import metrics as m
from exporter.allocations.mapping import DIRECTORY, read_jobs
from exporter.collectors.job import JobCollector
from exporter.errors import CollectError
from exporter.readings import GpuReading, Identity, MigInstance
from tests.exporter.jobs import allocated, cycled, gpu, holders, node, open_folder, reasons, rows, settings


@pytest.mark.parametrize(
    ("content", "jobs"),
    [(b"", ()), (b"\n\n", ()), (b"12\n", ("12",)), (b"12\r\n 13 \n12\n", ("12", "13")), (b"12_3", ("12_3",))],
)
def test_job_files(tmp_path: Path, content: bytes, jobs: tuple[str, ...]) -> None:
    path = tmp_path / "0"
    path.write_bytes(content)
    assert read_jobs(path) == jobs


@pytest.mark.pain(42)
@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"a b\n", b"\x00", b"1\n" * 40_000, b"x" * 129])
def test_files_that_hold_no_job_ids_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "0"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"job id|larger|ascii"):
        read_jobs(path)


def test_a_file_that_vanished_means_free(tmp_path: Path) -> None:
    assert read_jobs(tmp_path / "7") == ()


@pytest.mark.pain(42)
def test_a_pipe_is_no_file_and_nobody_waits_for_its_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "0")
    (tmp_path / "1").mkdir()
    collector = cycled(node(gpu(0), gpu(1)), settings(tmp_path, {DIRECTORY: tmp_path}))
    assert reasons(collector) == {"a": "format", "b": "format"}


@pytest.mark.pain(42)
def test_names_by_index_and_uuid_and_files_that_are_broken(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("77\n")
    (tmp_path / "GPU-b").write_text("77\n78\n77\n")
    (tmp_path / "2").write_bytes(b"\xff")
    (tmp_path / "README").write_bytes(b"\xff")
    collector = cycled(node(*map(gpu, range(4))), settings(tmp_path, {DIRECTORY: tmp_path}))
    assert allocated(collector) == {"a": 1, "b": 1, "d": 0}
    assert {row[:3] for row in holders(collector)} == {("a", "slurm", "77"), ("b", "slurm", "77"), ("b", "slurm", "78")}
    assert reasons(collector) == {"c": "format"}
    assert collector.health.errors["format"] == 1


def test_no_folder_named_is_unknown_and_a_missing_one_is_a_failure(tmp_path: Path) -> None:
    assert reasons(cycled(node(gpu(0)), settings(tmp_path))) == {"a": "not_found"}
    collector = JobCollector(settings(tmp_path, {DIRECTORY: tmp_path / "gone"}), node(gpu(0)))
    with pytest.raises(CollectError):
        collector.cycle()
    assert rows(collector, m.GPU_ALLOCATED, fresh=False) == {}
    assert reasons(collector, fresh=False) == {"a": "directory"}


def test_two_gpus_that_claim_one_index_are_both_unknown_and_their_uuids_still_count(tmp_path: Path) -> None:
    (tmp_path / "1").write_text("77\n")
    lost, moved = gpu(1), Identity("GPU-c", "0000:35:00", 1)
    state = node(gpu(0), lost, moved)
    assert reasons(cycled(state, settings(tmp_path, {DIRECTORY: tmp_path}))) == {
        "b": "unknown_device",
        "c": "unknown_device",
    }
    (tmp_path / "GPU-c").write_text("77\n")
    assert allocated(cycled(state, settings(tmp_path, {DIRECTORY: tmp_path}))) == {"a": 0, "c": 1}


@pytest.mark.pain(40)
def test_a_job_on_a_mig_device_holds_its_board_also_while_that_is_lost(tmp_path: Path) -> None:
    (tmp_path / "MIG-1").write_text("77\n")
    (tmp_path / "MIG-2").write_text("77\n")
    board, other = gpu(0, mig_mode="enabled"), gpu(1, mig_mode="enabled")
    instances = (MigInstance(1, 0, "MIG-1"), MigInstance(2, 0, "MIG-2"))
    state = node(board, other, readings=(GpuReading(board, None, instances=instances),))
    collector = cycled(state, settings(tmp_path, {DIRECTORY: tmp_path}))
    assert allocated(collector) == {"a": 1, "b": 0}
    assert len(holders(collector)) == 1
    state.readings = (GpuReading(board, "lost"),)
    collector.cycle()
    assert allocated(collector) == {"a": 1, "b": 0}


@pytest.mark.pain(40)
def test_a_mig_device_that_nobody_knows_may_be_on_any_board_with_mig(tmp_path: Path) -> None:
    (tmp_path / "MIG-9").write_text("77\n")
    state = node(gpu(0), gpu(1, mig_mode="enabled"), gpu(2, mig_mode=""))
    collector = cycled(state, settings(tmp_path, {DIRECTORY: tmp_path}))
    assert allocated(collector) == {"a": 0}
    assert reasons(collector) == {"b": "unknown_device", "c": "unknown_device"}


def test_a_gpu_has_at_most_64_holders_and_the_rest_are_counted(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("".join(f"{job}\n" for job in range(100)))
    collector = cycled(node(gpu(0)), settings(tmp_path, {DIRECTORY: tmp_path}))
    assert len(holders(collector)) == 64
    assert collector.health.errors["too_many"] == 36


def test_a_file_about_a_gpu_that_is_not_there_is_counted(tmp_path: Path) -> None:
    (tmp_path / "7").write_text("77\n")
    (tmp_path / "GPU-z").write_text("77\n")
    collector = cycled(node(gpu(0)), settings(tmp_path, {DIRECTORY: tmp_path}))
    assert allocated(collector) == {"a": 0}
    assert collector.health.errors["unknown_device"] == 2


@pytest.mark.pain(42)
@examples(max_examples=50, deadline=None)
@given(content=st.binary(max_size=200))
def test_no_content_breaks_a_cycle(content: bytes) -> None:
    with open_folder() as folder:
        (folder / "0").write_bytes(content)
        collector = cycled(node(gpu(0)), settings(folder, {DIRECTORY: folder}))
        said = rows(collector, m.GPU_ALLOCATED)
        assert bool(said) != bool(reasons(collector))
        for labels in rows(collector, m.GPU_WORKLOAD_INFO):
            assert all(label.isprintable() and label.isascii() and len(label) <= 128 for label in labels)


def test_names_by_index_behind_a_gpu_that_fell_off_are_in_doubt_and_those_before_it_hold(tmp_path: Path) -> None:
    """Eight GPUs with a job each; the fourth falls off, and the four behind it move up."""
    for index in range(8):
        (tmp_path / str(index)).write_text(f"{100 + index}\n")
    before = [gpu(number) for number in range(8)]
    after = [replace(one, index=number - 1) if number > 3 else one for number, one in enumerate(before)]
    collector = cycled(node(*before), settings(tmp_path, {DIRECTORY: tmp_path}))
    assert allocated(collector) == dict.fromkeys("abcdefgh", 1)
    collector = cycled(node(*after), settings(tmp_path, {DIRECTORY: tmp_path}))
    assert {row[0]: row[2] for row in holders(collector)} == {"a": "100", "b": "101", "c": "102"}
    assert allocated(collector) == dict.fromkeys("abc", 1)
    assert reasons(collector) == dict.fromkeys("defgh", "unknown_device")
