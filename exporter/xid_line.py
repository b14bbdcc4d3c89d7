"""Kernel log text about GPUs, read into records: XIDs, falls off the bus, and the SXIDs of NVSwitches.

Pure; knows no clock, no file and nothing of the running exporter. `parse_line` reads one line; an `XidReader` reads
the lines of one log in order, for what is said over several lines or told twice.

The forms are those that NVIDIA/open-gpu-kernel-modules prints (kernel_rc.c, osinit.c, nvlink_events.c) and that users
reported. Text that says nothing of this kind gives None, never an error: a log holds anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from exporter.slot import normalise_slot

What = Literal["xid", "fall", "sxid", "gpu"]
Severity = Literal["fatal", "nonfatal"]

OFF_THE_BUS: Final = 79
"""XID of a GPU that has fallen off the bus; also given to the texts that say so without a number."""
NVLINK5_XIDS: Final = range(144, 151)
"""XIDs whose text has a unit, a severity and a link of its own."""


@dataclass(frozen=True, slots=True)
class XidRecord:
    """What the kernel log says once about one device; what it does not say is None.

    Attributes:
        what: "xid"; "fall", a GPU that fell off the bus told in words alone; "sxid", of an NVSwitch; "gpu", the line
            that names the UUID of a GPU before its first XID.
        slot: PCI address, see `exporter.slot`; for an "sxid" that of the switch, which is no GPU.
        xid: the number; 79 for a "fall"; None for "sxid" and "gpu".
        sxid: the number of an "sxid".
        uuid: of a "gpu".
        text: what stands after the number, process and cause left out.
        pid, process: the process whose channel or call it was, as the driver names it.
        caused_by: the XID before it that this one is a consequence of.
        gi, ci: GPU instance and compute instance, under MIG.
        unit: part of the chip, as XID 144-150 name it.
        severity: of this very event, where XID 144-150 or an SXID state it; nobody's judgement.
        link: NVLink number; the driver prints -1 where no link is meant.
        cross_contained, injected: the XC and i marks of XID 144-150.
        words: the status words in brackets of XID 144-150.
    """

    what: What
    slot: str
    xid: int | None = None
    sxid: int | None = None
    uuid: str | None = None
    text: str = ""
    pid: int | None = None
    process: str | None = None
    caused_by: int | None = None
    gi: int | None = None
    ci: int | None = None
    unit: str | None = None
    severity: Severity | None = None
    link: int | None = None
    cross_contained: bool | None = None
    injected: bool | None = None
    words: tuple[int, ...] = ()


# Digits are bounded, so that no text is a number that Python refuses to read; ASCII, or \d would take any script's.
_FLAGS = re.ASCII | re.DOTALL
_NUMBER = r"([0-9]{1,9})(?![0-9])"
_ADDRESS = r"((?:PCI:)?(?:[0-9a-fA-F]{1,8}:)?[0-9a-fA-F]{1,2}:[0-9a-fA-F]{1,2}(?:\.[0-7])?)"
# The number is read after the bracket alone: the domain of the address may be 0079 or 0018.
_MIG = rf"(?: GPU-I:{_NUMBER})?(?: GPU-CI:{_NUMBER})?"
_XID = re.compile(rf"NVRM: Xid \({_ADDRESS}{_MIG}\): {_NUMBER}(?:, ?)?(.*)", _FLAGS)
_SXID = re.compile(rf"nvidia-nvswitch[0-9]*: SXid \({_ADDRESS}\): {_NUMBER}(?:, ?)?(.*)", _FLAGS)
_GPU = re.compile(rf"NVRM: GPU at {_ADDRESS}: (GPU-[0-9a-fA-F-]{{36}})(?![0-9a-fA-F-])", _FLAGS)
_FALL = re.compile(rf"NVRM: GPU (?:at )?{_ADDRESS}:? (?:GPU )?has fallen off the bus", _FLAGS)
_LONG_FALL = re.compile(rf"NVRM: The NVIDIA GPU {_ADDRESS}(?=\s|$)(.*)", _FLAGS)
_NVRM = re.compile(r"NVRM: ?(.*)", _FLAGS)
_PCI_ID = re.compile(r"\(PCI ID: [^()]{0,40}\)", _FLAGS)

_PROCESS = re.compile(r"pid=('[^']*'|[0-9]{1,9})(?:, name=(.*?))?(?:, |$)", _FLAGS)
_CAUSE = re.compile(rf"\bcaused by previous Xid {_NUMBER}\s*$", _FLAGS)
_NVLINK5 = re.compile(
    r"\s*([A-Za-z][A-Za-z0-9_ ]{0,60}?)\s+(Fatal|Non-?fatal)\s+XC ?([0-9]{1,3}) i ?([0-9]{1,3}) Link (-?[0-9]{1,4})\b",
    _FLAGS,
)
_WORD = re.compile(r"\b0x([0-9a-fA-F]{1,16})\b", _FLAGS)
_SWITCH_SEVERITY = re.compile(r"(Fatal|Non-?fatal)\b", _FLAGS)
_SWITCH_LINK = re.compile(r"\bLink (-?[0-9]{1,4})\b", _FLAGS)


def parse_line(line: str) -> XidRecord | None:
    """Reads one line, with whatever dmesg, journalctl or syslog wrote before it.

    The long form of a fall off the bus, which takes two or three lines, needs an `XidReader`.

    Returns:
        None if the line says nothing of this kind, or names no PCI address that exists.
    """
    try:
        return _xid(line) or _sxid(line) or _gpu(line) or _fall(line)
    except ValueError:  # not a PCI address
        return None


def _xid(line: str) -> XidRecord | None:
    match = _XID.search(line)
    if match is None:
        return None
    address, gi, ci, number, text = match.groups()
    cause = _CAUSE.search(text)
    if cause is not None:
        text = text[: cause.start()]
    pid, process, text = _process(text)
    record = XidRecord(
        "xid",
        normalise_slot(address),
        xid=int(number),
        text=text.strip(),
        pid=pid,
        process=process,
        caused_by=int(cause[1]) if cause else None,
        gi=int(gi) if gi else None,
        ci=int(ci) if ci else None,
    )
    return _with_nvlink5(record) if record.xid in NVLINK5_XIDS else record


def _process(text: str) -> tuple[int | None, str | None, str]:
    """Process id, process name and the text after them; the driver writes '<unknown>' where it knows none."""
    match = _PROCESS.match(text)
    if match is None:
        return None, None, text
    pid = int(match[1]) if match[1].isdigit() else None
    name = (match[2] or "").strip("'")
    return pid, None if name in ("", "<unknown>") else name, text[match.end() :]


def _with_nvlink5(record: XidRecord) -> XidRecord:
    """The record with what the text of XID 144-150 says; as it is, if the text has another form."""
    match = _NVLINK5.match(record.text)
    if match is None:
        return record
    return replace(
        record,
        unit=match[1],
        severity=_severity(match[2]),
        cross_contained=int(match[3]) != 0,
        injected=int(match[4]) != 0,
        link=int(match[5]),
        words=tuple(int(word, 16) for word in _WORD.findall(record.text, match.end())),
    )


def _severity(word: str) -> Severity:
    return "fatal" if word == "Fatal" else "nonfatal"


def _sxid(line: str) -> XidRecord | None:
    match = _SXID.search(line)
    if match is None:
        return None
    address, number, text = match.groups()
    severity, link = _SWITCH_SEVERITY.match(text), _SWITCH_LINK.search(text)
    return XidRecord(
        "sxid",
        normalise_slot(address),
        sxid=int(number),
        text=text.strip(),
        severity=_severity(severity[1]) if severity else None,
        link=int(link[1]) if link else None,
    )


def _gpu(line: str) -> XidRecord | None:
    match = _GPU.search(line)
    return None if match is None else XidRecord("gpu", normalise_slot(match[1]), uuid=match[2])


def _fall(line: str) -> XidRecord | None:
    match = _FALL.search(line)
    return None if match is None else _fallen(normalise_slot(match[1]))


def _fallen(slot: str) -> XidRecord:
    return XidRecord("fall", slot, xid=OFF_THE_BUS, text="fallen off the bus")


_LONG_FALL_TEXT: Final = "installed in this system has fallen off the bus"
_LONG_FALL_LINES: Final = 12
"""How far apart the lines of one long form may stand; other devices write in between."""
_SAME_FALL_S: Final = 5.0
"""Texts about one slot within this time tell of one fall: the driver prints them within microseconds, and a GPU cannot
come back and fall again so soon."""
_SAME_FALL_LINES: Final = 20
"""The same, where lines have no time."""
_REMEMBERED: Final = 256


@dataclass(slots=True)
class _LongFall:
    """The long form of a fall, of which the first lines have been read."""

    slot: str
    rest: str
    line: int


@dataclass(slots=True)
class _Told:
    """The last that was told of a fall of one slot; `numbered` once a line with the number has told it."""

    at_s: float | None
    line: int
    numbered: bool


class XidReader:
    """Reads the lines of one log in order.

    Laws: a fall off the bus gives one record with XID 79, whether it is told with the number, in words, or in both,
    whichever comes first; two lines with a number give two records, however alike they are.
    """

    def __init__(self) -> None:
        self._line = 0
        self._long: list[_LongFall] = []
        self._told: dict[str, _Told] = {}

    def read(self, text: str, at_s: float | None = None) -> tuple[XidRecord, ...]:
        """Reads one line, or one message of several lines.

        Args:
            text: what the log says.
            at_s: when, in seconds of any clock that all calls share; None where the log does not say.
        """
        found: list[XidRecord] = []
        for line in text.split("\n"):
            self._line += 1
            record = parse_line(line) or self._read_long(line)
            if record is not None and not self._is_told(record, at_s):
                found.append(record)
        return tuple(found)

    def _read_long(self, line: str) -> XidRecord | None:
        """Takes in a line that may belong to a long form; gives the fall if it ends one."""
        self._long = [fall for fall in self._long if self._line - fall.line < _LONG_FALL_LINES]
        first = _LONG_FALL.search(line)
        if first is not None:
            try:
                fall = _LongFall(normalise_slot(first[1]), _LONG_FALL_TEXT, self._line)
            except ValueError:
                return None
            self._long.append(fall)
            return self._advance(fall, _words(first[2]))
        message = _NVRM.search(line)
        if message is None:
            return None
        words = _words(message[1])
        # The newest that waits for these very words: an older one may be of another message with the same beginning.
        for fall in reversed(self._long):
            if words and (fall.rest.startswith(words) or words.startswith(fall.rest)):
                return self._advance(fall, words)
        return None

    def _advance(self, fall: _LongFall, words: str) -> XidRecord | None:
        """Takes the next words of a long form; other words end it without a fall."""
        if words.startswith(fall.rest):
            self._long.remove(fall)
            return _fallen(fall.slot)
        if fall.rest.startswith(words):
            fall.rest = fall.rest[len(words) :].strip()
        else:
            self._long.remove(fall)
        return None

    def _is_told(self, record: XidRecord, at_s: float | None) -> bool:
        """Whether this is the second telling of a fall that is known already."""
        if record.xid != OFF_THE_BUS:
            return False
        before = self._told.pop(record.slot, None)
        if before is not None and not self._beside(before, at_s):
            before = None
        in_words = record.what == "fall"
        told = before is not None and (in_words or not before.numbered)
        numbered = not in_words or (before is not None and before.numbered)
        self._told[record.slot] = _Told(at_s, self._line, numbered)
        if len(self._told) > _REMEMBERED:
            del self._told[next(iter(self._told))]
        return told

    def _beside(self, before: _Told, at_s: float | None) -> bool:
        if at_s is None or before.at_s is None:
            return self._line - before.line <= _SAME_FALL_LINES
        return abs(at_s - before.at_s) <= _SAME_FALL_S


def _words(text: str) -> str:
    """Text without the PCI id, one blank between words."""
    return " ".join(_PCI_ID.sub(" ", text).split())


def read_lines(lines: Iterable[str]) -> Iterator[XidRecord]:
    """The records of a whole log whose lines have no time that matters."""
    reader = XidReader()
    for line in lines:
        yield from reader.read(line)
