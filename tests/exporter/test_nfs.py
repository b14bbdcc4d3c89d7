"""NFS mounts: odd files, mounts that share a file system, and that no mount is ever touched."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter import metrics as m
from exporter.collectors.nfs import (
    Mount,
    NfsCollector,
    Operation,
    distinct,
    nfs_samples,
    parse_devices,
    parse_mountstats,
    unescape,
)
from exporter.config import Settings
from exporter.readings import Sample
from tests.exporter.collecting import LAW, NODE_EXPORTER, expected, node, put, roots, rows, unavailable
from tests.exporter.harness import PROC, SYS, Page, command, environment

HEADER = (
    "device srv:/x mounted on {} with fstype nfs4 statvers=1.1\n"
    "\tage:\t1\n\tRPC iostats version: {}  p/v: 100003/4 (nfs)\n"
)
OPS = "\tper-op statistics\n\t        READ: 10 12 1 100 2000 5 70 80 0\n"


def collector(proc: Path = PROC) -> NfsCollector:
    made = NfsCollector(roots(proc), node())
    made.cycle()
    return made


def mountstats(folder: Path, text: str, mountinfo: str = "") -> NfsCollector:
    put(folder / "self" / "mountstats", text)
    put(folder / "self" / "mountinfo", mountinfo)
    return collector(folder)


def test_operations_of_each_mount() -> None:
    nfs = collector()
    assert rows(nfs, m.NFS_OPS)["/data", "READ"] == 1298
    assert rows(nfs, m.NFS_OP_SECONDS)["/data", "READ"] == 79.407  # execute, not the round trip
    assert rows(nfs, m.NFS_RETRANS)["/data", "READ"] == 3
    assert rows(nfs, m.NFS_TIMEOUTS)["/data", "READ"] == 1
    assert rows(nfs, m.NFS_OPS)["/home/group a", "GETATTR"] == 12
    assert list(nfs.samples(False, 0.0)) == []


def test_four_operations_have_rows_from_the_start_and_others_when_used() -> None:
    found = rows(collector(), m.NFS_OPS)
    assert {op for mount, op in found if mount == "/home/group a"} == {"READ", "WRITE", "COMMIT", "GETATTR"}
    assert found["/home/group a", "READ"] == 0
    assert {op for mount, op in found if mount == "/data"} >= {"OPEN", "NULL"}
    assert ("/data", "OPEN_CONFIRM") not in found


def test_mount_points_of_one_file_system_are_counted_once() -> None:
    """A bind mount (its name holds a backslash) shows the counters of /data again; a sum would double them."""
    assert {mount for mount, _ in rows(collector(), m.NFS_OPS)} == {"/data", "/home/group a"}
    assert set(parse_devices((PROC / "self/mountinfo").read_text())) == {"/data", "/home/group a", "/mnt/data\\bind"}


def test_one_export_mounted_twice_on_its_own_is_two_mounts(tmp_path: Path) -> None:
    text = (HEADER + OPS).format("/a", "1.1") + (HEADER + OPS).format("/b", "1.1")
    line = "4{0} 22 0:5{0} / /{1} rw - nfs4 srv:/x rw\n"
    nfs = mountstats(tmp_path, text, line.format(1, "a") + line.format(2, "b"))
    assert {mount for mount, _ in rows(nfs, m.NFS_OPS)} == {"/a", "/b"}


def test_of_mounts_on_top_of_each_other_the_last_is_seen(tmp_path: Path) -> None:
    text = (HEADER + OPS).format("/a", "1.1") + (HEADER + OPS.replace(" 10 12 ", " 20 20 ")).format("/a", "1.1")
    line = "4{0} 22 0:5{0} / /a rw - nfs4 srv:/x rw\n"
    assert rows(mountstats(tmp_path, text, line.format(1) + line.format(2)), m.NFS_OPS)["/a", "READ"] == 20
    assert rows(mountstats(tmp_path, text), m.NFS_OPS)["/a", "READ"] == 20


def test_the_numbers_are_those_of_node_exporter() -> None:
    proc = NODE_EXPORTER / "proc"
    word = {
        m.NFS_OPS: "requests",
        m.NFS_OP_SECONDS: "request_time_seconds",
        m.NFS_TIMEOUTS: "major_timeouts",
    }
    names = {family: f"node_mountstats_nfs_operations_{name}_total" for family, name in word.items()}
    sent = "node_mountstats_nfs_operations_transmissions_total"
    theirs = expected(*names.values(), sent)
    # The file has three mounts on two mount points; they name them by their transport.
    protocol_by_mount = {"/mnt/nfs/test": "tcp", "/mnt/nfs/test-dupe": "udp"}
    nfs = collector(proc)
    seen = 0

    def their(name: str, mount: str, op: str) -> float:
        labels = {"export": "192.168.1.1:/srv/test", "mountaddr": "192.168.1.1", "operation": op}
        return theirs[name, frozenset({*labels.items(), ("protocol", protocol_by_mount[mount])})]

    for family, name in names.items():
        for (mount, op), value in rows(nfs, family).items():
            assert value == pytest.approx(their(name, mount, op), rel=1e-12)
            seen += 1
    assert seen == 15
    for (mount, op), value in rows(nfs, m.NFS_RETRANS).items():
        assert value == their(sent, mount, op) - their(names[m.NFS_OPS], mount, op)
    # Fewer sent than finished: no number of retransmissions.
    assert ("/mnt/nfs/test-dupe", "ACCESS") not in rows(nfs, m.NFS_RETRANS)
    assert nfs.health.errors["out_of_range"] == 1


@pytest.mark.parametrize(
    ("line", "bad"),
    [
        ("\t        READ: 1 1 0 0 0 0 0 80\n", 0),  # statistics 1.0: no column of errors
        ("\t        READ: 1 1 0 0 0 0 0 80 0 7 7 7\n", 0),  # columns to come
        ("\t        READ: 1 1 0 0 0 0 0\n", 1),
        ("\t        READ: 1 x 0 0 0 0 0 80\n", 1),
        ("\t        READ: 1 -1 0 0 0 0 0 80\n", 1),
        ("\t        read: 1 1 0 0 0 0 0 80\n", 1),
        ("\t          63: 1 1 0 0 0 0 0 80 0\n", 0),  # an operation that the kernel has no name for
        ("\tgarbage\n", 1),
    ],
)
def test_a_line_that_makes_no_sense_costs_its_operation_alone(tmp_path: Path, line: str, bad: int) -> None:
    text = HEADER.format("/a", "1.1") + "\tper-op statistics\n" + line + "\t       WRITE: 3 3 0 0 0 0 0 9000 0\n"
    nfs = mountstats(tmp_path, text)
    assert rows(nfs, m.NFS_OP_SECONDS)["/a", "WRITE"] == 9.0
    assert len(rows(nfs, m.NFS_OPS)) == (1 if bad else 2)
    assert nfs.health.errors["format"] == bad


def test_statistics_of_another_version_are_not_guessed_at(tmp_path: Path) -> None:
    nfs = mountstats(tmp_path, (HEADER + OPS).format("/a", "2.0") + (HEADER + OPS).format("/b", "1.0"))
    assert {mount for mount, _ in rows(nfs, m.NFS_OPS)} == {"/b"}
    assert nfs.health.errors["format"] == 1


@pytest.mark.pain(18)
def test_times_that_ran_below_zero_are_dropped_and_counted() -> None:
    found = list(nfs_samples("/a", {"READ": Operation(1, 1, 0, 18446743919241604546)}))
    assert found[0] == "out_of_range"
    assert {row.family for row in found[1:] if isinstance(row, Sample)} == {m.NFS_OPS, m.NFS_RETRANS, m.NFS_TIMEOUTS}


@pytest.mark.pain(12, 44)
def test_no_mount_and_no_file_are_told_apart(tmp_path: Path) -> None:
    fields = ("nfs_op_seconds_total", "nfs_ops_total", "nfs_retrans_total", "nfs_timeouts_total")
    assert unavailable(collector(tmp_path)) == dict.fromkeys(fields, "not_supported")
    nfs = mountstats(tmp_path, "device proc mounted on /proc with fstype proc\n")
    assert unavailable(nfs) == dict.fromkeys(fields, "not_found")


def test_names_that_hold_anything(tmp_path: Path) -> None:
    escaped = 'a\\040b\\011c\\012d\\134e\\043f"{x="y"}'
    text = (HEADER + OPS).format(
        f"/{escaped}", "1.1"
    ).encode() + b"device \xff:/ mounted on /\xff\xfe with fstype nfs\n"
    put(tmp_path / "self/mountstats", text)
    assert ('/a b\tc\nd\\e#f"{x="y"}', "READ") in rows(collector(tmp_path), m.NFS_OPS)
    ran = subprocess.run(
        command("--once", f"--path.procfs={tmp_path}", "--no-collector.host"),
        env=environment(None, None), capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert Page(ran.stdout).value("nfs_ops_total", mount='/a b\tc\nd\\e#f"{x="y"}', op="READ") == 10


_PARTS = st.sampled_from(
    ["device a mounted on /m with fstype nfs", "no device mounted on /m with fstype nfs", "device", " ", "\n", "\t",
     "per-op statistics", "READ: 1 2 3 4 5 6 7 8", "9" * 30, "RPC iostats version: ", "2.", "\\040",
     "\\777", " - nfs x"]
)  # fmt: skip


@LAW
@given(st.lists(_PARTS | st.text(max_size=8)).map("".join))
def test_no_text_breaks_the_parsers(text: str) -> None:
    mounts = distinct(parse_mountstats(text), parse_devices(text))
    assert len({mount.path for mount in mounts}) == len(mounts)
    for mount in mounts:
        for row in nfs_samples(mount.path, mount.operations):
            assert row == "out_of_range" or (isinstance(row, Sample) and 0 <= row.value <= 2**62)


@LAW
@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_unescape_undoes_what_the_kernel_does(path: str) -> None:
    escaped = "".join(f"\\{ord(c):03o}" if c in " \t\n\\#" else c for c in path)
    assert unescape(escaped) == path


@LAW
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("12"))))
def test_each_mount_point_and_each_file_system_once(entries: list[tuple[str, str]]) -> None:
    devices: dict[str, list[str]] = {}
    for path, device in entries:
        devices.setdefault(path, []).append(device)
    mounts = distinct([Mount(path) for path, _ in entries], devices)
    paths = [mount.path for mount in mounts]
    assert len(set(paths)) == len(paths)
    assert sorted(devices[path][-1] for path in paths) == sorted({last[-1] for last in devices.values()})


# --- P44: nothing touches a mount -------------------------------------------------------------------------
@pytest.mark.pain(44)
def test_the_exporter_never_names_a_path_on_a_mount(tmp_path: Path) -> None:
    """Every system call with a file name of the exporter and its children is recorded by strace, in a cycle of
    every collector; the mounts are folders that exist, so that a look at one would succeed and be seen."""
    strace = shutil.which("strace")
    assert strace is not None, "strace is missing: install it with `apt-get install strace`"
    proc, mounts = tmp_path / "proc", [tmp_path / "mounts" / name for name in ("data", "with space", "gone")]
    shutil.copytree(PROC, proc, ignore=shutil.ignore_patterns("mountstats", "mountinfo"))
    stats, info = "", ""
    for number, mount in enumerate(mounts):
        name = str(mount).replace(" ", "\\040")
        if mount.name != "gone":
            mount.mkdir(parents=True)
        stats += (HEADER + OPS).format(name, "1.1")
        info += f"4{number} 22 0:5{number} / {name} rw,relatime - nfs4 srv:/x rw\n"
    put(proc / "self/mountstats", stats)
    put(proc / "self/mountinfo", info)
    log = tmp_path / "calls"
    options = ("--once", f"--path.procfs={proc}", f"--path.sysfs={SYS}", f"--path.cgroup={tmp_path / 'cgroup'}")
    line = [strace, "-f", "-qq", "-s", "4096", "-e", "trace=%file", "-e", "signal=none", "-o", str(log)]
    ran = subprocess.run(
        [*line, *command(*options)],
        env=environment(None, None),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    calls = log.read_text(errors="replace").splitlines()
    assert any(f'"{proc}/self/mountstats"' in call for call in calls), "strace did not see the exporter read"
    seen = {dict(labels)["mount"] for labels in Page(ran.stdout).find("nfs_ops_total")}
    assert seen == set(map(str, mounts))
    assert [call for call in calls if f"{tmp_path}/mounts" in call] == []


@pytest.mark.pain(44)
def test_a_second_scan_reads_nothing_else_and_leaves_nothing_open(tmp_path: Path) -> None:
    put(tmp_path / "self/mountstats", "".join((HEADER + OPS).format(f"/m{n}", "1.1") for n in range(50)))
    nfs = collector(tmp_path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(50):
        nfs.cycle()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert len(rows(nfs, m.NFS_OPS)) == 50


def test_this_machine() -> None:
    nfs = NfsCollector(Settings(), node())
    nfs.cycle()
    has_nfs = re.search(r"with fstype nfs4? ", Path("/proc/self/mountstats").read_text()) is not None
    assert bool(rows(nfs, m.NFS_OPS)) == has_nfs
    assert sum(nfs.health.errors.values()) == 0
