"""Threads in state D: real ones, scripted ones, and what may be claimed of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter import metrics as m
from exporter.collectors.proc import ProcCollector, classify, parse_stat
from exporter.config import Settings
from exporter.errors import CollectError
from tests.exporter.collecting import LAW, node, put, roots, rows, unavailable
from tests.exporter.harness import PROC, Exporter, Page, environment

# A process whose name looks like a stat line, and whose second thread sleeps in state D: the parent of vfork does,
# until its child ends (kernel/fork.c wait_for_vfork_done), which needs neither a driver nor a right.
SLEEPER = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

static void *block(void *unused)
{
    (void)unused;
    prctl(PR_SET_NAME, "d) R 1 (");
    if (vfork() == 0) {
        char end;
        while (read(0, &end, 1) > 0) {
        }
        _exit(0);
    }
    pause();
    return 0;
}

int main(void)
{
    pthread_t thread;
    prctl(PR_SET_NAME, "a) D 2 (");
    pthread_create(&thread, 0, block, 0);
    pause();
    return 0;
}
"""


@pytest.fixture(scope="session")
def sleeper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sleeper")
    source = put(folder / "sleeper.c", SLEEPER)
    compiler = shutil.which("gcc")
    assert compiler is not None, "gcc is missing: install it with `apt-get install gcc libc6-dev`"
    subprocess.run([compiler, "-O1", "-Wall", "-pthread", "-o", folder / "sleeper", source], check=True)
    return folder / "sleeper"


@pytest.fixture
def blocked(sleeper: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process with a thread in state D, until its standard input closes."""
    process = subprocess.Popen([sleeper], stdin=subprocess.PIPE)
    end_s = time.monotonic() + 10
    while b"D" not in {stat[0] for stat in map(parse_stat, stats(process.pid)) if stat}:
        assert time.monotonic() < end_s, "no thread came to state D"
        time.sleep(0.01)
    yield process
    process.kill()
    assert process.stdin is not None
    process.stdin.close()
    process.wait(10)


def stats(pid: int) -> list[bytes]:
    """Stat lines of the threads of a process."""
    return [(task / "stat").read_bytes() for task in Path(f"/proc/{pid}/task").iterdir()]


def here(pid: int, folder: Path) -> Path:
    """A tree of proc with process 1, this exporter and one real process."""
    for name in ("1", "self"):
        (folder / name).symlink_to(PROC / name)
    (folder / str(pid)).symlink_to(f"/proc/{pid}")
    return folder


def tasks(proc: ProcCollector) -> dict[str, float]:
    return {where: value for (where,), value in rows(proc, m.NODE_BLOCKED_TASKS).items()}


def oldest_s(proc: ProcCollector) -> dict[str, float]:
    return {where: value for (where,), value in rows(proc, m.NODE_BLOCKED_TASK_OLDEST).items()}


def scripted(tmp_path: Path) -> tuple[ProcCollector, Path]:
    root = tmp_path / "proc"
    shutil.copytree(PROC, root)
    return ProcCollector(roots(root), node()), root


# --- real threads -----------------------------------------------------------------------------------------
def test_a_real_thread_in_state_d_is_found_behind_names_with_brackets(
    blocked: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    proc = ProcCollector(roots(here(blocked.pid, tmp_path)), node())
    proc.scan(100.0)
    assert tasks(proc) == {"nvidia": 0, "nfs": 0, "other": 1}
    assert oldest_s(proc)["other"] == 0
    proc.scan(130.0)
    proc.scan(160.5)
    assert oldest_s(proc) == {"nvidia": 0, "nfs": 0, "other": 60.5}
    assert blocked.stdin is not None
    blocked.stdin.close()  # the child ends, the thread goes on
    end_s = time.monotonic() + 10
    while tasks(proc)["other"]:
        assert time.monotonic() < end_s
        time.sleep(0.01)
        proc.scan(200.0)
    assert oldest_s(proc)["other"] == 0
    assert sum(proc.health.errors.values()) == 0


def test_a_served_page_counts_it(blocked: subprocess.Popen[bytes]) -> None:
    """The real exporter over the real proc of this machine."""
    exporter = Exporter([], environment(None, None))
    try:
        page = exporter.wait(lambda page: page.find("node_blocked_tasks"))
        assert sum(page.find("node_blocked_tasks").values()) >= 1
        assert page.value("collect_success", collector="proc") == 1
    finally:
        exporter.stop()


def test_this_machine() -> None:
    proc = ProcCollector(Settings(), node())
    for _ in range(3):
        proc.cycle()
    assert sum(proc.health.errors.values()) == 0
    assert proc.period_s >= 15
    if "node_blocked_tasks" not in unavailable(proc):
        assert "other" in tasks(proc)


def test_threads_that_end_during_a_scan_are_normal(tmp_path: Path) -> None:
    proc, root = scripted(tmp_path)
    (root / "4300" / "stat").unlink()  # ended between the listing and the reading
    shutil.rmtree(root / "4242" / "task")
    (root / "4301" / "wchan").unlink()
    proc.scan(0.0)
    assert tasks(proc) == {"nvidia": 0, "nfs": 0, "other": 1}
    assert sum(proc.health.errors.values()) == 0


# --- what may be claimed ----------------------------------------------------------------------------------
def test_each_class_is_always_there() -> None:
    proc = ProcCollector(roots(), node())
    proc.scan(5.0)
    assert tasks(proc) == {"nvidia": 1, "nfs": 1, "other": 1}
    assert list(proc.samples(False, 0.0)) == []


def test_a_sleep_that_was_broken_begins_anew(tmp_path: Path) -> None:
    """In state D at both scans is not enough: a thread that ran in between has another count of switches."""
    proc, root = scripted(tmp_path)
    status = root / "4300" / "status"
    proc.scan(0.0)
    proc.scan(15.0)
    assert oldest_s(proc)["nfs"] == 15
    put(status, status.read_text().replace("voluntary_ctxt_switches:\t77", "voluntary_ctxt_switches:\t78"))
    proc.scan(30.0)
    assert oldest_s(proc)["nfs"] == 0
    proc.scan(45.0)
    assert oldest_s(proc) == {"nvidia": 45, "nfs": 15, "other": 45}
    put(status, "Name:\tx\n")  # without the count nothing is known of the time in between
    proc.scan(60.0)
    proc.scan(75.0)
    assert oldest_s(proc)["nfs"] == 0


def test_an_id_that_comes_again_is_another_thread(tmp_path: Path) -> None:
    proc, root = scripted(tmp_path)
    proc.scan(0.0)
    stat = root / "4300" / "stat"
    put(stat, stat.read_text().replace(" 81500 ", " 99999 "))
    proc.scan(15.0)
    assert oldest_s(proc)["nfs"] == 0


def test_a_thread_that_went_on_is_forgotten(tmp_path: Path) -> None:
    proc, root = scripted(tmp_path)
    stat = root / "4300" / "stat"
    text = stat.read_text()
    proc.scan(0.0)
    put(stat, text.replace(") D ", ") S "))
    proc.scan(15.0)
    assert tasks(proc)["nfs"] == 0
    put(stat, text)
    proc.scan(30.0)
    assert (tasks(proc)["nfs"], oldest_s(proc)["nfs"]) == (1, 0)


@pytest.mark.parametrize(
    ("wchan", "where"),
    [
        ("nv_open_device_for_nvlfp", "nvidia"), ("nvidia_ioctl", "nvidia"), ("_nv045630rm", "nvidia"),
        ("nvkms_ioctl_from_kapi", "nvidia"), ("uvm_va_space_destroy", "nvidia"), ("os_acquire_mutex", "nvidia"),
        ("nvidia_drm_fence_wait", "nvidia"), ("nvlink_lock", "nvidia"),
        ("nvme_wait_freeze", "other"), ("nvdimm_bus_lock", "other"), ("nvmem_reg_read", "other"),
        ("rpc_wait_bit_killable", "nfs"), ("nfs_wait_on_request", "nfs"), ("nfs4_run_open_task", "nfs"),
        ("__rpc_execute", "nfs"), ("xprt_request_wait_receive", "nfs"),
        ("io_schedule", "other"), ("folio_wait_bit_common", "other"), ("0", "other"), ("", "other"),
    ],
)  # fmt: skip
def test_where_a_thread_waits(wchan: str, where: str) -> None:
    assert classify(wchan) == where


# --- what cannot be seen ----------------------------------------------------------------------------------
@pytest.mark.pain(12)
def test_without_the_right_to_see_where_they_wait_classes_are_unknown_not_zero(tmp_path: Path) -> None:
    proc, root = scripted(tmp_path)
    status = root / "self" / "status"
    put(status, status.read_text().replace("000001ffffffffff", "0000000000000000"))
    for thread in ("4242/task/4243", "4300", "4301"):
        put(root / thread / "wchan", "0")
    proc.scan(0.0)
    proc.scan(15.0)
    assert tasks(proc) == {"other": 3}
    assert oldest_s(proc) == {"other": 15}
    assert unavailable(proc) == {
        f"{family}/{where}": "no_permission"
        for family in ("node_blocked_tasks", "node_blocked_task_oldest_seconds")
        for where in ("nvidia", "nfs")
    }


@pytest.mark.pain(12)
def test_hidden_processes_are_no_healthy_node(tmp_path: Path) -> None:
    """hidepid=2 shows only our own processes, and never process 1."""
    proc, root = scripted(tmp_path)
    shutil.rmtree(root / "1")
    proc.scan(0.0)
    assert tasks(proc) == {}
    both = ("node_blocked_tasks", "node_blocked_task_oldest_seconds")
    assert unavailable(proc) == dict.fromkeys(both, "no_permission")
    empty = ProcCollector(roots(put(tmp_path / "empty" / "x", "").parent), node())
    empty.scan(0.0)
    assert unavailable(empty) == dict.fromkeys(both, "not_found")
    with pytest.raises(CollectError):
        ProcCollector(roots(tmp_path / "gone"), node()).scan(0.0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start the exporter as somebody else")
def test_as_another_user_the_real_page_says_what_it_cannot_see(blocked: subprocess.Popen[bytes]) -> None:
    code = (
        "import os, sys; from exporter.cli import main; from exporter.collectors import discover; discover(); "
        "os.setgid(65534); os.setuid(65534); sys.argv = ['gpu-minutes-exporter', '--once']; sys.exit(main())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(None, None),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    page = Page(ran.stdout)
    assert {dict(labels)["class"] for labels in page.find("node_blocked_tasks")} == {"other"}
    assert page.value("node_blocked_tasks", **{"class": "other"}) >= 1
    assert page.reasons()["node_blocked_tasks/nvidia"] == "no_permission"


@LAW
@given(st.binary())
def test_no_bytes_break_the_parser(stat: bytes) -> None:
    assert isinstance(parse_stat(stat), list)


@LAW
@given(st.binary(max_size=64))
def test_a_name_never_changes_what_is_read(name: bytes) -> None:
    assert parse_stat(b"17 (" + name + b") D 1 17 17 0") == [b"D", b"1", b"17", b"17", b"0"]


def test_a_stat_that_is_none_is_counted(tmp_path: Path) -> None:
    proc, root = scripted(tmp_path)
    put(root / "4300" / "stat", b"\xff\xff) D")
    proc.scan(0.0)
    assert tasks(proc)["nfs"] == 0
    assert proc.health.errors["format"] == 1


def test_a_scan_that_costs_much_is_made_more_rarely(tmp_path: Path) -> None:
    proc, root = scripted(tmp_path)
    line = (root / "4242" / "task" / "4244" / "stat").read_text()
    for tid in range(5000, 25_000):
        put(root / "4242" / "task" / str(tid) / "stat", line.replace("4244", str(tid)))
    began_s = time.thread_time()
    proc.cycle()
    cost_s = time.thread_time() - began_s
    assert proc.period_s == 120 or cost_s <= 1.1 * 0.005 * proc.period_s
    if cost_s > 0.1:
        assert proc.period_s > 15
