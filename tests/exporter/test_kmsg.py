"""XIDs from the kernel's log: the format of the device, and the real exporter over a log that grows."""

from __future__ import annotations

import os
import re
import time
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter import metrics as m
from exporter.collector import NodeState
from exporter.collectors import kmsg as collectors_kmsg
from exporter.collectors.kmsg import PATH, KmsgCollector
from exporter.config import Settings
from exporter.errors import CollectError
from exporter.inventory import Inventory
from exporter.kmsg import KmsgFile, parse_record
from exporter.metrics import WATCHED_XIDS
from exporter.readings import Identity
from tests.exporter.conftest import StartExporter
from tests.exporter.fake_nvml.script import GPU_IS_LOST, FakeDriver
from tests.exporter.harness import Exporter, Page, run_exporter
from tests.exporter.kernel_log import KernelLog

SLOTS = ("0000:19:00", "0000:27:00")
FALL = "NVRM: GPU {slot}.0: GPU has fallen off the bus."
LONG_FALL = (
    "NVRM: The NVIDIA GPU {slot}.0\nNVRM: (PCI ID: 10de:26b5) installed in this system has\n"
    "NVRM: fallen off the bus and is not responding to commands."
)


def xid(number: int, text: str = "text", slot: str = SLOTS[0]) -> str:
    """A line of the driver."""
    return f"NVRM: Xid (PCI:{slot}): {number}, pid=4711, name=python3, {text}"


@pytest.fixture(params=["file", "pipe"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> KernelLog:
    """A kernel log, as a file and as a pipe."""
    path = tmp_path / "kmsg"
    if request.param == "pipe":
        os.mkfifo(path)
    return KernelLog(path)


def follow(start: StartExporter, log: KernelLog, *options: str) -> Exporter:
    """An exporter that has read the log to its end and knows both GPUs."""
    exporter = start(f"--collector.kmsg.path={log.path}", *options)
    exporter.wait(lambda p: list(p.find("gpu_up").values()) == [1.0, 1.0] and kernel_rows(p))
    return exporter


def kernel_rows(page: Page, uuid: str | None = None) -> dict[int, float]:
    """Counts by XID, as the kernel's log told them."""
    labels = {"source": "kmsg"} | ({} if uuid is None else {"uuid": uuid})
    return {int(dict(key)["xid"]): value for key, value in page.find("gpu_xid_events_total", **labels).items()}


def seen(page: Page, uuid: str) -> dict[int, float]:
    """Counts that are not 0."""
    return {number: value for number, value in kernel_rows(page, uuid).items() if value}


def reached(page: Page, row: dict[str, str], count: float) -> bool:
    """Whether a row has come to a count."""
    return page.value("gpu_xid_events_total", **row) == count


def test_a_record_of_the_device() -> None:
    record = parse_record(b"4,9921,9370042162,-;NVRM: Xid (PCI:0000:17:00): 119, a\\x0ab \\xc3\\xa9\\x5c")
    assert record is not None
    assert (record.facility, record.sequence, record.since_boot_s) == (0, 9921, 9370.042162)
    assert record.text == "NVRM: Xid (PCI:0000:17:00): 119, a\nb é\\"
    record = parse_record(b"30,340,5690716,-,caller=T1,more;udevd[80]: starting; version 181")
    assert record is not None
    assert (record.facility, record.text) == (3, "udevd[80]: starting; version 181")
    assert parse_record(b"6,1000,100;without a flag") is not None


@pytest.mark.parametrize("line", [b"", b"text", b"4,1,2,-", b"x,1,2,-;t", b"4,1;t", b" SUBSYSTEM=acpi", b"\xff,1,2,-;"])
def test_what_is_no_record(line: bytes) -> None:
    assert parse_record(line) is None


@given(st.binary(max_size=300))
def test_no_bytes_are_an_error(data: bytes) -> None:
    parse_record(data)
    parse_record(b"4,1,1,-;" + data)


def test_a_log_is_read_in_whole_lines_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    file, log = KmsgFile(tmp_path / "pipe"), KernelLog(tmp_path / "pipe")
    assert file.lines(10) == ([], True)
    log.say("one")
    log.raw(b"4,102,1,-;tw")
    lines, finished = file.lines(10)
    assert ([line[-3:] for line in lines], finished) == ([b"one"], True)
    log.raw(b"o\n")
    assert file.lines(10) == ([b"4,102,1,-;two"], True)
    file.close()


@pytest.mark.pain(1, 2, 3, 4)
def test_a_burst_is_counted_one_by_one_and_told_in_order(
    start: StartExporter, driver: FakeDriver, log: KernelLog
) -> None:
    exporter = follow(start, log)
    page = exporter.page()
    for index in (0, 1):
        assert kernel_rows(page, driver.uuid(index)) == dict.fromkeys(WATCHED_XIDS, 0.0)
    assert not page.find("gpu_xid_last_timestamp_seconds")
    before_s = time.time()
    at_s = time.monotonic()
    log.say(xid(62), xid(45, "Ch 00000001 caused by previous Xid 62"), xid(31), xid(31), xid(150), at_s=at_s)
    page = exporter.wait(lambda p: seen(p, driver.uuid(0)).get(150))
    assert seen(page, driver.uuid(0)) == {62: 1, 45: 1, 31: 2, 150: 1}
    assert seen(page, driver.uuid(1)) == {}
    last_s = page.value("gpu_xid_last_timestamp_seconds", uuid=driver.uuid(0), xid="31")
    assert before_s - 0.1 <= last_s <= time.time()
    time.sleep(1.0)
    later = exporter.page()
    assert seen(later, driver.uuid(0)) == seen(page, driver.uuid(0))
    assert later.value("gpu_xid_last_timestamp_seconds", uuid=driver.uuid(0), xid="31") == last_s
    told = [line for line in exporter.stop_and_read_log().splitlines() if "xid source=kmsg" in line]
    assert [re.findall(r" xid=(\d+)", line)[0] for line in told] == ["62", "45", "31", "31", "150"]
    assert f"slot={SLOTS[0]} uuid={driver.uuid(0)} xid=45 caused_by=62 pid=4711 process=python3 at=20" in told[1]


@pytest.mark.pain(5)
@pytest.mark.parametrize("log", ["file"], indirect=True)
def test_a_fall_off_the_bus_without_an_xid_is_a_79_beside_gpu_up_0(
    start: StartExporter, driver: FakeDriver, log: KernelLog
) -> None:
    exporter = follow(start, log)
    driver.gpu(1).every_return = GPU_IS_LOST
    log.say(LONG_FALL.format(slot=SLOTS[1]))
    page = exporter.wait(lambda p: seen(p, driver.uuid(1)) and p.value("gpu_up", uuid=driver.uuid(1)) == 0)
    assert seen(page, driver.uuid(1)) == {79: 1}
    assert seen(page, driver.uuid(0)) == {}
    log.say(xid(79, "GPU has fallen off the bus.", SLOTS[0]), FALL.format(slot=SLOTS[0]), xid(45))
    page = exporter.wait(lambda p: seen(p, driver.uuid(0)).get(45))
    assert seen(page, driver.uuid(0)) == {79: 1, 45: 1}
    assert seen(page, driver.uuid(1)) == {79: 1}


@pytest.mark.pain(6)
@pytest.mark.parametrize("log", ["file"], indirect=True)
def test_a_storm_of_10_000_is_counted_in_full_and_does_not_flood_the_log(
    start: StartExporter, driver: FakeDriver, log: KernelLog
) -> None:
    exporter = follow(start, log)
    log.say(xid(149, "NETIR Fatal XC0 i0 Link -1 (0x1 0x2)"), *[xid(45, "Ch 1 caused by previous Xid 149")] * 10_000)
    page = exporter.wait(lambda p: seen(p, driver.uuid(0)).get(45) == 10_000)
    assert seen(page, driver.uuid(0)) == {149: 1, 45: 10_000}
    told = [line for line in exporter.stop_and_read_log().splitlines() if "xid source=kmsg" in line]
    assert len(told) == 61
    assert f"left_out=9941 of one minute: {SLOTS[0]}/45=9941" in told[-1]


@pytest.mark.pain(9)
@pytest.mark.parametrize("log", ["file"], indirect=True)
def test_sub_codes_are_in_the_log_record_and_in_no_label(
    start: StartExporter, driver: FakeDriver, log: KernelLog
) -> None:
    exporter = follow(start, log)
    log.say(
        xid(145, "RLW_RXPIPE Nonfatal XC0 i1 Link 13 (0x0409a0c2 0x00000008)"),
        xid(149, "NETIR Fatal XC0 i0 Link -1 (0x000fe406 0x00000000)"),
        "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 48 LTSSM Fault Up",
    )
    page = exporter.wait(lambda p: seen(p, driver.uuid(0)).get(149))
    assert seen(page, driver.uuid(0)) == {145: 1, 149: 1}
    for key in page.find("gpu_xid_events_total"):
        assert {name for name, _ in key} == {"uuid", "slot", "xid", "source"}
    assert not page.find("gpu_xid_events_total", slot="0000:06:00")
    told = [line for line in exporter.stop_and_read_log().splitlines() if "xid source=kmsg" in line]
    assert "xid=145 unit=RLW_RXPIPE severity=nonfatal link=13 status=0x409a0c2,0x8 injected=true pid=" in told[0]
    assert "xid=149 unit=NETIR severity=fatal link=-1 status=0xfe406,0x0 pid=" in told[1]
    assert "slot=0000:06:00 sxid=20034 severity=fatal link=48 at=" in told[2]
    assert [line.split()[1] for line in told] == ["level=info", "level=warning", "level=warning"]


@pytest.mark.pain(7, 8)
def test_the_domain_is_not_the_code(start: StartExporter, driver: FakeDriver, log: KernelLog) -> None:
    driver.gpu(0).bus_id = b"00000079:01:00.0"
    exporter = follow(start, log)
    log.say(xid(31, slot="0079:01:00"))
    page = exporter.wait(lambda p: seen(p, driver.uuid(0)))
    assert seen(page, driver.uuid(0)) == {31: 1}


@pytest.mark.pain(47)
@pytest.mark.parametrize("log", ["file"], indirect=True)
def test_an_xid_94_counts_without_any_ecc_error(start: StartExporter, driver: FakeDriver, log: KernelLog) -> None:
    exporter = follow(start, log)
    before = exporter.page().find("gpu_ecc_errors_total", uuid=driver.uuid(0))
    log.say(xid(94, "Contained: SM (0x1). RST: No, D-RST: No"))
    page = exporter.wait(lambda p: seen(p, driver.uuid(0)) == {94: 1})
    assert before and page.find("gpu_ecc_errors_total", uuid=driver.uuid(0)) == before


@pytest.mark.pain(1)
def test_what_happened_before_the_start_has_a_time_and_no_count(
    start: StartExporter, driver: FakeDriver, tmp_path: Path
) -> None:
    log, uuid = KernelLog(tmp_path / "kmsg"), driver.uuid(0)
    at_s = time.monotonic() - 5.0
    log.say(xid(79), xid(77), at_s=at_s)
    for _ in range(2):  # a restart changes nothing: no false event
        exporter = follow(start, log)
        page = exporter.wait(lambda p: p.find("gpu_xid_last_timestamp_seconds", uuid=uuid, xid="77"))
        assert seen(page, uuid) == {}
        assert kernel_rows(page, uuid)[77] == 0
        last_s = page.value("gpu_xid_last_timestamp_seconds", uuid=uuid, xid="79")
        assert last_s == pytest.approx(time.time() - time.monotonic() + at_s, abs=1.0)
        assert "xid source=kmsg" not in exporter.stop_and_read_log()
    exporter = follow(start, log)
    log.say(xid(79))
    page = exporter.wait(lambda p: seen(p, uuid))
    assert seen(page, uuid) == {79: 1}
    assert page.value("gpu_xid_last_timestamp_seconds", uuid=uuid, xid="79") > last_s + 3.0


@pytest.mark.parametrize("log", ["file"], indirect=True)
def test_a_clock_of_the_log_that_has_drifted_does_not_move_a_new_event(
    start: StartExporter, driver: FakeDriver, log: KernelLog
) -> None:
    exporter = follow(start, log)
    before_s = time.time()
    log.say(xid(31), at_s=time.monotonic() - 170.0)
    log.say(xid(32), at_s=time.monotonic() + 170.0)
    page = exporter.wait(lambda p: len(seen(p, driver.uuid(0))) == 2)
    for number in ("31", "32"):
        at_s = page.value("gpu_xid_last_timestamp_seconds", uuid=driver.uuid(0), xid=number)
        assert before_s - 30.0 <= at_s <= time.time()


@pytest.mark.parametrize("log", ["file"], indirect=True)
def test_the_later_time_of_both_sources_stands(start: StartExporter, driver: FakeDriver, log: KernelLog) -> None:
    exporter = follow(start, log)
    uuid, family = driver.uuid(0), "gpu_xid_last_timestamp_seconds"
    exporter.wait(lambda p: list(p.find("collect_success", collector="xid").values()) == [1.0])
    times_s: list[float] = []
    for source, count in (("kmsg", 1), ("nvml", 1), ("kmsg", 2), ("nvml", 2)):
        time.sleep(0.3)
        if source == "kmsg":
            log.say(xid(31))
        else:
            driver.raise_xid(0, 31)
        row = {"uuid": uuid, "xid": "31", "source": source}
        page = exporter.wait(partial(reached, row=row, count=count))
        times_s.append(page.value(family, uuid=uuid, xid="31"))
    assert times_s == sorted(set(times_s))
    assert page.value("gpu_xid_events_total", uuid=uuid, xid="31", source="nvml") == 2
    assert page.value("gpu_xid_events_total", uuid=uuid, xid="31", source="kmsg") == 2


@pytest.mark.parametrize("log", ["file"], indirect=True)
def test_what_cannot_be_trusted_is_passed_over_and_what_is_lost_is_counted(
    start: StartExporter, driver: FakeDriver, log: KernelLog
) -> None:
    exporter = follow(start, log)
    log.say(xid(79), priority=8 + 4)  # a process wrote it
    log.say(f"usb 1-1: Product: {xid(79)}")  # somebody's text that holds it
    log.raw(b"\xff\xfe broken\n4,5\n")
    log.say("NVRM: Xid (PCI:nowhere): 79, text")
    log.say(xid(32) + "\xe9\\\n\x1b", lost=7)
    page = exporter.wait(lambda p: seen(p, driver.uuid(0)))
    assert seen(page, driver.uuid(0)) == {32: 1}
    assert page.value("collect_errors_total", collector="kmsg", reason="format") == 3
    assert page.value("collect_errors_total", collector="kmsg", reason="overwritten") == 7
    assert page.value("collect_success", collector="kmsg") == 1


def test_a_node_without_the_device_says_so_and_has_the_rest(env: dict[str, str], tmp_path: Path) -> None:
    page = Page(run_exporter("--once", f"--collector.kmsg.path={tmp_path / 'none'}", env=env).stdout)
    assert page.reasons()["gpu_xid_events_total/kmsg"] == "not_supported"
    assert not page.find("gpu_xid_events_total", source="kmsg")
    assert page.find("gpu_xid_events_total", source="nvml")
    assert page.value("collect_success", collector="kmsg") == 1
    assert list(page.find("gpu_up").values()) == [1.0, 1.0]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_without_permission_it_says_so(tmp_path: Path) -> None:
    log = KernelLog(tmp_path / "kmsg")
    log.say(xid(79))
    tmp_path.chmod(0o755)
    collector = KmsgCollector(Settings({PATH: log.path}), NodeState(Inventory()))
    os.seteuid(65534)
    try:
        collector.cycle()
        (sample,) = collector.samples(True, time.monotonic())
    finally:
        os.seteuid(0)
    assert (sample.family, sample.labels) == (
        m.FIELD_UNAVAILABLE,
        ("", "", "gpu_xid_events_total/kmsg", "no_permission"),
    )


def test_a_path_that_can_never_be_read_is_an_error(tmp_path: Path) -> None:
    node = NodeState(Inventory())
    node.inventory.update([Identity("GPU-a", SLOTS[0], 0)])
    collector = KmsgCollector(Settings({PATH: tmp_path}), node)
    for _ in range(3):
        with pytest.raises(CollectError) as caught:
            collector.cycle()
        assert caught.value.reason == "unknown"
    collector.health.finished_s = 0.0
    (sample,) = collector.samples(False, 0.0)  # and no row at 0: nobody could have seen an event
    assert (sample.family, sample.labels) == (m.FIELD_UNAVAILABLE, ("", "", "gpu_xid_events_total/kmsg", "unknown"))


def given_counts(collector: KmsgCollector) -> dict[tuple[str, str], float]:
    """Counts by (uuid, xid) that are not 0."""
    samples = collector.samples(True, time.monotonic())
    return {(s.labels[0], s.labels[2]): s.value for s in samples if s.family is m.GPU_XID_EVENTS and s.value}


@pytest.mark.pain(48)
def test_xids_of_a_gpu_that_nobody_knows_yet_wait_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, node = KernelLog(tmp_path / "kmsg"), NodeState(Inventory())
    collector = KmsgCollector(Settings({PATH: log.path}), node)
    collector.cycle()
    log.say(xid(31), xid(31), xid(79, slot=SLOTS[1]))
    collector.cycle()
    assert given_counts(collector) == {}
    node.inventory.update([Identity("GPU-a", SLOTS[0], 0)])
    assert given_counts(collector) == {("GPU-a", "31"): 2}
    assert collector.health.counts()["unknown_device"] == 0
    monkeypatch.setattr(collectors_kmsg, "_UNKNOWN_AFTER_S", 0.0)
    collector.cycle()
    collector.cycle()
    assert collector.health.counts()["unknown_device"] == 1
    node.inventory.update([Identity("GPU-b", SLOTS[1], 1)])  # late, but it came
    assert given_counts(collector) == {("GPU-a", "31"): 2, ("GPU-b", "79"): 1}
    collector.stop()


def test_the_kernel_s_own_word_on_a_gpu_comes_before_the_inventory(tmp_path: Path) -> None:
    """After a swap the inventory still names the GPU before, until the driver answers."""
    log, node = KernelLog(tmp_path / "kmsg"), NodeState(Inventory())
    node.inventory.update([Identity("GPU-old", SLOTS[0], 0)])
    uuid = "GPU-c28ea3a7-4b0e-0f7d-1d2e-9f1c0b4a5d6e"
    collector = KmsgCollector(Settings({PATH: log.path}), node)
    collector.cycle()
    log.say(f"NVRM: GPU at PCI:{SLOTS[0]}: {uuid}", xid(31))
    collector.cycle()
    assert given_counts(collector) == {(uuid, "31"): 1}
    collector.stop()


def test_a_log_that_must_be_opened_again_is_not_counted_twice(tmp_path: Path) -> None:
    log, node = KernelLog(tmp_path / "kmsg"), NodeState(Inventory())
    node.inventory.update([Identity("GPU-a", SLOTS[0], 0)])
    collector = KmsgCollector(Settings({PATH: log.path}), node)
    collector.cycle()
    log.say(xid(31))
    collector.cycle()
    assert collector._file is not None
    os.dup2(os.open(tmp_path, os.O_RDONLY), collector._file._fd)  # reads of it fail from now on
    for _ in range(2):  # it fails, and waits a moment
        with pytest.raises(CollectError):
            collector.cycle()
    log.say(xid(31))
    collector.cycle()
    assert given_counts(collector) == {("GPU-a", "31"): 2}
    collector.stop()


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="no readable kernel log here")
def test_the_real_device_is_read_to_its_end_without_waiting() -> None:
    file = KmsgFile(Path("/dev/kmsg"))
    lines, finished = file.lines(1_000_000)
    file.close()
    assert finished and lines
    records = [parse_record(line) for line in lines]
    assert all(record is not None for record in records)
    sequences = [record.sequence for record in records if record is not None]
    assert sequences == list(range(sequences[0], sequences[0] + len(sequences)))
