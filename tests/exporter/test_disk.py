"""Block devices: which count, in which unit, and what of a line is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter import metrics as m
from exporter.collectors.disk import DiskCollector, is_partition, parse_line
from exporter.config import Settings
from exporter.errors import CollectError
from tests.exporter.collecting import LAW, NODE_EXPORTER, expected, node, put, roots, rows, unavailable
from tests.exporter.harness import PROC, SYS

LINE = "   8       0 sda 326552 841 9657779 84 41822 2895 1972905 5007 0 60730 67070 68851 0 1925173784 11130"


def collector(proc: Path = PROC, sys: Path = SYS) -> DiskCollector:
    made = DiskCollector(roots(proc, sys), node())
    made.cycle()
    return made


def test_times_are_seconds_and_partitions_and_loops_are_left_out() -> None:
    disk = collector()
    assert rows(disk, m.DISK_IO_BUSY_SECONDS) == {("nvme0n1",): 315.452, ("sda",): 60.73, ("dm-0",): 11325.968}
    assert rows(disk, m.DISK_IOS_IN_PROGRESS) == {("nvme0n1",): 3, ("sda",): 0, ("dm-0",): 0}
    times_s = rows(disk, m.DISK_IO_SECONDS)
    assert times_s["nvme0n1", "read"] == 172.031
    assert times_s["nvme0n1", "write"] == 2421.006
    assert list(disk.samples(False, 0.0)) == []


def test_the_numbers_are_those_of_node_exporter(tmp_path: Path) -> None:
    disk = collector(NODE_EXPORTER / "proc", tmp_path)
    theirs = expected(
        "node_disk_io_time_seconds_total",
        "node_disk_read_time_seconds_total",
        "node_disk_write_time_seconds_total",
        "node_disk_io_now",
    )

    def their(name: str, device: str) -> float:
        return theirs[name, frozenset({("device", device)})]

    devices = {labels[0] for labels in rows(disk, m.DISK_IO_BUSY_SECONDS)}
    # They keep the parts of a memory card and the optical drive; we do not.
    assert devices == {dict(labels)["device"] for _, labels in theirs} - {"mmcblk0p1", "mmcblk0p2", "sr0"}
    for device in devices:
        read, write = rows(disk, m.DISK_IO_SECONDS)[device, "read"], rows(disk, m.DISK_IO_SECONDS)[device, "write"]
        assert read == pytest.approx(their("node_disk_read_time_seconds_total", device), rel=1e-12)
        assert write == pytest.approx(their("node_disk_write_time_seconds_total", device), rel=1e-12)
        busy = rows(disk, m.DISK_IO_BUSY_SECONDS)[device,]
        assert busy == pytest.approx(their("node_disk_io_time_seconds_total", device), rel=1e-12)
        assert rows(disk, m.DISK_IOS_IN_PROGRESS)[device,] == their("node_disk_io_now", device)


@pytest.mark.parametrize(
    ("device", "partition"),
    [
        ("sda", False), ("sda1", True), ("sdaa12", True), ("vdb3", True), ("xvda1", True),
        ("nvme0n1", False), ("nvme0n1p2", True), ("nvme10n2", False), ("mmcblk0", False), ("mmcblk0p1", True),
        ("md0", False), ("md127p1", True), ("dm-3", False), ("nbd0", False), ("nbd0p1", True), ("rbd0", False),
        ("cciss/c0d0", False), ("cciss/c0d0p1", True), ("pmem0", False), ("pmem0p1", True),
    ],
)  # fmt: skip
def test_without_sys_a_name_tells_a_partition(tmp_path: Path, device: str, partition: bool) -> None:
    assert is_partition(device, tmp_path) is partition


def test_sys_knows_better_than_the_name(tmp_path: Path) -> None:
    block = tmp_path / "class" / "block"
    (block / "sda1").mkdir(parents=True)  # a disk of that name
    put(block / "cciss!c0d0p1" / "partition", "1\n")
    put(block / "oddpart" / "partition", "1\n")
    assert not is_partition("sda1", tmp_path)
    assert is_partition("cciss/c0d0p1", tmp_path)
    assert is_partition("oddpart", tmp_path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ((" 84 ", " 4294967295 "), None),  # the last value before its 32 bits start again
        ((" 84 ", " 4294967296 "), "out_of_range"),
        ((" 0 60730", " 4294967295 60730"), "out_of_range"),  # minus one request in flight
        ((" 84 ", " -1 "), "format"),
        ((" 84 ", " x "), "format"),
        ((" 84 ", " ８４ "), "format"),
        ((LINE[40:], ""), "format"),
    ],
)
@pytest.mark.pain(18)
def test_an_impossible_line_costs_its_device_alone(tmp_path: Path, change: tuple[str, str], reason: str | None) -> None:
    put(tmp_path / "diskstats", LINE.replace("sda", "sdb") + "\n" + LINE.replace(*change, 1) + "\n")
    disk = collector(tmp_path, tmp_path)
    assert set(rows(disk, m.DISK_IO_BUSY_SECONDS)) == ({("sdb",)} if reason else {("sda",), ("sdb",)})
    assert {name: n for name, n in disk.health.errors.items() if n} == ({reason: 1} if reason else {})


@pytest.mark.pain(12)
def test_no_file_and_no_disk_are_told_apart(tmp_path: Path) -> None:
    fields = ("disk_io_seconds_total", "disk_io_busy_seconds_total", "disk_ios_in_progress")
    assert unavailable(collector(tmp_path)) == dict.fromkeys(fields, "not_supported")
    put(tmp_path / "diskstats", "   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0\n")
    assert unavailable(collector(tmp_path)) == dict.fromkeys(fields, "not_found")
    (tmp_path / "diskstats").unlink()
    (tmp_path / "diskstats").mkdir()
    with pytest.raises(CollectError):
        collector(tmp_path)


@LAW
@given(st.lists(st.text(min_size=1)))
def test_no_line_breaks_the_parser(columns: list[str]) -> None:
    found = parse_line(columns)
    assert found in ("format", "out_of_range") or len(found) == 4


def test_this_machine() -> None:
    disk = DiskCollector(Settings(), node())
    disk.cycle()
    before = rows(disk, m.DISK_IO_SECONDS)
    disk.cycle()
    assert all(rows(disk, m.DISK_IO_SECONDS)[key] >= value for key, value in before.items())
    assert not any(labels[0].startswith(("loop", "ram", "zram")) for labels in before)
