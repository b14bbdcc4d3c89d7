"""Kernel log lines, real and in the forms of the driver's source, and what is read out of them."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.xid_line import NVLINK5_XIDS, OFF_THE_BUS, XidReader, XidRecord, parse_line, read_lines
from tests.exporter.harness import HERE

SAMPLES = [
    tuple(line.split("\t"))
    for line in (HERE / "data" / "xid_lines.tsv").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
"""(code, quality, source, line)."""
SLOT = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}")


def lines_of(code: str) -> list[str]:
    """Sample lines with this code, the kernel's own line ends put in."""
    return [row[3].replace(r" \n ", "\n") for row in SAMPLES if row[0] == code]


def one(text: str) -> XidRecord:
    """The one record of a text."""
    records = XidReader().read(text)
    assert len(records) == 1
    return records[0]


@pytest.mark.pain(7, 8)
@pytest.mark.parametrize(("code", "line"), [(row[0], row[3]) for row in SAMPLES if row[0].isdigit()])
def test_every_numeric_line_gives_its_code(code: str, line: str) -> None:
    record = parse_line(line)
    assert record is not None
    assert (record.what, record.xid) == ("xid", int(code))
    assert SLOT.fullmatch(record.slot) and record.slot in line
    assert one(line) == record


@pytest.mark.pain(7)
@pytest.mark.parametrize(
    ("line", "slot", "xid"),
    [
        ("NVRM: Xid (PCI:0079:01:00): 31, pid=1, name=a, Ch 8", "0079:01:00", 31),
        ("NVRM: Xid (PCI:0018:01:00): 145, text", "0018:01:00", 145),
        ("NVRM: Xid (0000:03:00): 14, Channel 00000001", "0000:03:00", 14),
        ("NVRM: Xid (PCI:0000:79:00): 13", "0000:79:00", 13),
        ("NVRM: Xid (PCI:0000:B3:00.0): 79, GPU has fallen off the bus.", "0000:b3:00", 79),
        ("kernel: NVRM: Xid (PCI:00010000:01:00): 43, ", "10000:01:00", 43),
        ("[  130.456250] [ T1946] NVRM: Xid (PCI:0000:01:00): 109, pid=2075, name=x, Ch", "0000:01:00", 109),
    ],
)
def test_the_code_is_what_follows_the_address(line: str, slot: str, xid: int) -> None:
    record = parse_line(line)
    assert record is not None
    assert (record.slot, record.xid) == (slot, xid)


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: Xid (PCI:0000:ff:ff): 79, no such device number",
        "NVRM: Xid (PCI:): 79, no address",
        "NVRM: Xid (PCI:0000:01:00) 79",
        "NVRM: Xid (PCI:0000:01:00): seventy-nine",
        f"NVRM: Xid (PCI:0000:01:00): {'7' * 5000}",
        "NVRM: Xid (PCI:0000:01:00): ٧٩, digits of another script",
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.158.01",
        "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): garbled, Fatal",
        "NVRM: The NVIDIA probe routine failed for 1 device(s).",
        "",
    ],
)
def test_what_names_no_event_is_none(line: str) -> None:
    assert parse_line(line) is None
    assert XidReader().read(line) == ()


def test_lines_about_something_else_are_none() -> None:
    assert [parse_line(line) for code in ("HUNGTASK", "OOM") for line in lines_of(code)] == [None, None]


@pytest.mark.pain(3)
def test_the_cause_that_the_driver_states_is_read_and_taken_out_of_the_text() -> None:
    record = one(lines_of("45")[0])
    assert (record.xid, record.caused_by, record.text) == (45, 149, "Ch 00000001")
    assert (record.pid, record.process) == (1818990, "python3")
    quoted = one("NVRM: Xid (PCI:0000:01:00): 43, pid=1, name=a, caused by previous Xid 31, said someone")
    assert quoted.caused_by is None


@pytest.mark.parametrize(
    ("stated", "pid", "process", "text"),
    [
        ("pid='<unknown>', name=<unknown>, GPU has", None, None, "GPU has"),
        ("pid=1797828, name=pt_main_thread, Ch 8", 1797828, "pt_main_thread", "Ch 8"),
        ("pid=7194, Contained: CE", 7194, None, "Contained: CE"),
        ("pid=12, name=ray::A=1, B", 12, "ray::A=1", "B"),
        ("pid=12, name=python3", 12, "python3", ""),
        ("Row Remapper: pid=3", None, None, "Row Remapper: pid=3"),
    ],
)
def test_the_process_where_it_is_stated(stated: str, pid: int | None, process: str | None, text: str) -> None:
    record = one(f"NVRM: Xid (PCI:0000:01:00): 31, {stated}")
    assert (record.pid, record.process, record.text) == (pid, process, text)


def test_under_mig_the_instances_are_read() -> None:
    record = one("NVRM: Xid (PCI:0000:52:00 GPU-I:05 GPU-CI:01): 94, pid=7194, name=a, Contained: CE (0x9)")
    assert (record.slot, record.xid, record.gi, record.ci) == ("0000:52:00", 94, 5, 1)
    record = one("NVRM: Xid (PCI:0000:52:00 GPU-I:05): 94, pid=7194, Contained: CE (0x9)")
    assert (record.xid, record.gi, record.ci) == (94, 5, None)


@pytest.mark.pain(9)
def test_sub_codes_say_unit_severity_and_link() -> None:
    record = one(lines_of("145")[0])
    assert (record.unit, record.severity, record.link) == ("RLW_RXPIPE", "nonfatal", 13)
    assert record.words == (0x0409A0C2, 0x8, 0x1, 0x0, 0x00100000, 0x4)
    assert (record.cross_contained, record.injected) == (False, False)
    record = one(lines_of("149")[0])
    assert (record.unit, record.severity, record.link) == ("NETIR", "fatal", -1)
    assert record.words[0] == 0x000FE406


@pytest.mark.pain(9)
@pytest.mark.parametrize(
    ("text", "unit", "severity", "link", "words"),
    [
        ("MSE degraded  Fatal   XC0 i0 Link -1 (0x1 0x2 0x0 0x0 0x0 0x0)", "MSE degraded", "fatal", -1, 6),
        (
            "NVLINK_SW_DEFINED_ERROR Nonfatal XC0 i0 Link 04 : Link Down While Active.",
            "NVLINK_SW_DEFINED_ERROR",
            "nonfatal",
            4,
            0,
        ),
        ("NETIR_LINK_EVT Fatal XC 1 i 2 Link 01 [0x0000000a]", "NETIR_LINK_EVT", "fatal", 1, 1),
        ("RLW_REMAP Nonfatal XC0 i0 Link 02", "RLW_REMAP", "nonfatal", 2, 0),
    ],
)
def test_sub_codes_in_the_forms_of_the_driver(text: str, unit: str, severity: str, link: int, words: int) -> None:
    for xid in NVLINK5_XIDS:
        record = one(f"NVRM: Xid (PCI:0000:04:00): {xid}, pid=5, name=a, {text}")
        assert (record.unit, record.severity, record.link, len(record.words)) == (unit, severity, link, words)
    assert one(f"NVRM: Xid (PCI:0000:04:00): 74, {text}").unit is None


def test_a_sub_code_that_cannot_be_read_still_is_its_xid() -> None:
    record = one("NVRM: Xid (PCI:0000:04:00): 149, something new")
    assert (record.xid, record.unit, record.severity, record.link, record.words) == (149, None, None, None, ())


def test_switches_are_no_gpus() -> None:
    record = one(lines_of("SXID-20034")[0])
    assert (record.what, record.slot, record.xid, record.sxid) == ("sxid", "0000:06:00", None, 20034)
    assert (record.severity, record.link) == ("fatal", 48)
    record = one(lines_of("SXID-12028")[0])
    assert (record.sxid, record.severity, record.link) == (12028, None, None)
    assert one("nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20009, Non-fatal, Link 28 RX").severity == "nonfatal"


def test_the_line_that_names_a_gpu() -> None:
    uuid = "GPU-c28ea3a7-4b0e-0f7d-1d2e-9f1c0b4a5d6e"
    record = one(f"NVRM: GPU at PCI:0000:3b:00: {uuid}")
    assert (record.what, record.slot, record.uuid, record.xid) == ("gpu", "0000:3b:00", uuid, None)


LONG, SHORT = lines_of("79-noxid")
NUMBERED = lines_of("79")[0]


@pytest.mark.pain(5)
@pytest.mark.parametrize(
    ("text", "slot"),
    [
        (LONG, "0000:b3:00"),
        (SHORT, "0000:91:00"),
        ("NVRM: GPU at 0000:01:00.0 has fallen off the bus.", "0000:01:00"),
        (
            "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:1e07) installed in this\n"
            "NVRM: system has fallen off the bus and is not responding to commands.",
            "0000:01:00",
        ),
        (
            "NVRM: The NVIDIA GPU 0000:05:00.0 installed in this system has fallen off the bus and is not responding",
            "0000:05:00",
        ),
    ],
)
def test_a_fall_told_in_words_is_a_79_on_the_right_slot(text: str, slot: str) -> None:
    record = one(text)
    assert (record.what, record.slot, record.xid) == ("fall", slot, OFF_THE_BUS)


@pytest.mark.pain(5)
def test_the_long_form_may_come_line_by_line_with_others_in_between() -> None:
    reader, first, second, third = XidReader(), *LONG.split("\n")
    lines = [first, "usb 1-1: new device", second, "NVRM: loading NVIDIA UNIX", third, "mlx5_core 0000:ab:00.0: Link"]
    found = [record for line in lines for record in reader.read(line)]
    assert [(record.slot, record.xid) for record in found] == [("0000:b3:00", 79)]


@pytest.mark.pain(5)
def test_two_falls_whose_lines_are_mixed_are_two() -> None:
    other = [line.replace("b3", "0a") for line in LONG.split("\n")]
    mixed = [line for pair in zip(LONG.split("\n"), other, strict=True) for line in pair]
    assert sorted(record.slot for record in read_lines(mixed)) == ["0000:0a:00", "0000:b3:00"]


@pytest.mark.pain(5)
def test_another_message_that_begins_alike_is_no_fall() -> None:
    alike = (
        "NVRM: The NVIDIA GPU 0000:0a:00.0 (PCI ID: 10de:1e07)\n"
        "NVRM: installed in this system is not supported by open nvidia.ko because it does not include a GSP\n"
    )
    assert XidReader().read(alike) == ()
    assert one(alike + LONG).slot == "0000:b3:00"


@pytest.mark.pain(5)
@pytest.mark.parametrize("at_s", [(None, None, None), (10.0, 10.000004, 10.1)], ids=["without times", "with times"])
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0), (1, 2, 0)], ids=str)
def test_a_fall_told_with_a_number_and_in_words_is_one(order: tuple[int, ...], at_s: tuple[float | None, ...]) -> None:
    told = (NUMBERED, SHORT, LONG.replace("b3", "91"))
    reader = XidReader()
    found = [record for n, time_s in zip(order, at_s, strict=True) for record in reader.read(told[n], time_s)]
    assert [(record.slot, record.xid) for record in found] == [("0000:91:00", 79)]


@pytest.mark.pain(2, 5)
def test_what_is_told_twice_with_a_number_happened_twice() -> None:
    reader = XidReader()
    found = [record for line in (NUMBERED, SHORT, NUMBERED, NUMBERED) for record in reader.read(line, 5.0)]
    assert [record.xid for record in found] == [79, 79, 79]
    assert len([record for _ in range(3) for record in reader.read(lines_of("31")[0], 5.0)]) == 3


@pytest.mark.pain(5)
def test_a_later_fall_and_a_fall_of_another_gpu_are_others() -> None:
    reader = XidReader()
    assert len(reader.read(NUMBERED, 10.0)) == 1
    assert len(reader.read(SHORT.replace("91", "92"), 10.0)) == 1
    assert len(reader.read(SHORT, 100.0)) == 1
    assert len(reader.read(SHORT, 101.0)) == 0


@given(st.lists(st.text(max_size=60) | st.sampled_from([row[3] for row in SAMPLES]), max_size=6))
def test_no_text_is_an_error(parts: list[str]) -> None:
    reader = XidReader()
    for text in (*parts, "".join(parts), "\n".join(parts)):
        parse_line(text)
        for record in reader.read(text):
            assert SLOT.fullmatch(record.slot) or len(record.slot) > 10
            assert record.xid is None or record.xid >= 0


@given(st.binary(max_size=200), st.sampled_from([row[3].encode() for row in SAMPLES]), st.integers(0, 200))
def test_no_bytes_are_an_error(noise: bytes, line: bytes, at: int) -> None:
    XidReader().read((line[:at] + noise + line[at:]).decode("utf-8", "replace"))
    XidReader().read((line[:at] + noise).decode("utf-8", "surrogateescape"))


def test_it_needs_the_slot_normaliser_alone() -> None:
    code = "import sys, exporter.xid_line; print(sorted(m for m in sys.modules if m.startswith('exporter')))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['exporter', 'exporter.slot', 'exporter.xid_line']"
