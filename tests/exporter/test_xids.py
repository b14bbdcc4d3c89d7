"""What is remembered of XIDs, and how they are told in the log."""

from __future__ import annotations

import logging
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter import metrics as m
from exporter.readings import Identity, XidEvent
from exporter.xids import LINES_PER_MINUTE, XidCounts, XidLog, XidTimes

GPU = Identity("GPU-1", "0000:19:00", 0)


def event(xid: int, at_s: float) -> XidEvent:
    return XidEvent(GPU.uuid, GPU.slot, xid, at_s)


def rows(counts: XidCounts) -> dict[int, float]:
    """Counts by XID that are not 0."""
    found = counts.samples([GPU])
    return {int(s.labels[2]): s.value for s in found if s.family is m.GPU_XID_EVENTS and s.value}


def last_s(times: XidTimes) -> dict[int, float]:
    """Times of the last event by XID."""
    found = [(int(s.labels[2]), s.value) for s in times.samples()]
    assert len(dict(found)) == len(found)
    return dict(found)


@pytest.mark.pain(1, 4)
def test_watched_rows_stand_at_0_and_nothing_changes_by_itself() -> None:
    times = XidTimes()
    counts = XidCounts("nvml", times)
    first = list(counts.samples([GPU]))
    assert [s.value for s in first] == [0.0] * len(m.WATCHED_XIDS)
    assert {s.labels for s in first} == {(GPU.uuid, GPU.slot, str(xid), "nvml") for xid in m.WATCHED_XIDS}
    counts.add(event(79, 100.0))
    after = list(counts.samples([GPU]))
    assert {s.labels for s in first} <= {s.labels for s in after}
    assert rows(counts) == {79: 1.0}
    assert last_s(times) == {79: 100.0}
    assert list(counts.samples([GPU])) == after


@pytest.mark.pain(8)
@given(st.lists(st.integers(1, 400), max_size=60))
def test_no_code_is_suppressed_or_folded(xids: list[int]) -> None:
    counts = XidCounts("kmsg", XidTimes())
    for n, xid in enumerate(xids):
        counts.add(event(xid, float(n)))
    assert rows(counts) == {xid: xids.count(xid) for xid in xids}


@given(st.lists(st.tuples(st.booleans(), st.floats(1.0, 2e9)), min_size=1, max_size=20))
def test_of_two_sources_the_later_time_stands_whichever_came_first(told: list[tuple[bool, float]]) -> None:
    times = XidTimes()
    nvml, kmsg = XidCounts("nvml", times), XidCounts("kmsg", times)
    for by_kernel, at_s in told:
        (kmsg if by_kernel else nvml).add(event(31, at_s))
    assert last_s(times) == {31: max(at_s for _, at_s in told)}


def test_an_event_from_before_the_start_has_a_time_and_no_count() -> None:
    times = XidTimes()
    counts = XidCounts("kmsg", times)
    counts.add(event(999, 5.0), times=0)
    assert rows(counts) == {}
    assert [s.value for s in counts.samples([GPU]) if s.labels[2] == "999"] == [0.0]
    assert last_s(times) == {999: 5.0}


class Lines(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
def logger(lines: Lines) -> logging.Logger:
    logger = logging.Logger("test")
    logger.addHandler(lines)
    return logger


def test_a_line_has_what_is_known(logger: logging.Logger, lines: Lines) -> None:
    log = XidLog("kmsg", logger)
    log.tell(1_700_000_000.1239, {"slot": "0000:19:00", "uuid": "", "xid": 149, "link": -1, "unit": None, "gi": 0})
    log.tell(0.0, {"xid": 31, "process": 'a b="c"\x1b[31m\n'})
    assert lines.lines == [
        "xid source=kmsg slot=0000:19:00 xid=149 link=-1 gi=0 at=2023-11-14T22:13:20.123Z",
        "xid source=kmsg xid=31 process='a b=\"c\"\\x1b[31m\\n' at=1970-01-01T00:00:00.000Z",
    ]


@pytest.mark.pain(6)
def test_a_storm_is_told_in_numbers_and_the_next_minute_begins_anew(logger: logging.Logger, lines: Lines) -> None:
    now_s = 1000.0
    log = XidLog("kmsg", logger, lambda: now_s)
    for n in range(10_000):
        log.tell(float(n), {"slot": "0000:19:00", "xid": 45})
    log.tell(0.0, {"slot": "0000:27:00", "xid": 31})
    log.flush()
    assert len(lines.lines) == LINES_PER_MINUTE
    now_s += 60.0
    log.flush()
    left_out = 10_001 - LINES_PER_MINUTE
    told = f"xid source=kmsg left_out={left_out} of one minute: 0000:19:00/45={left_out - 1} 0000:27:00/31=1"
    assert lines.lines[LINES_PER_MINUTE:] == [told]
    log.tell(0.0, {"slot": "0000:27:00", "xid": 32})
    assert lines.lines[-1].startswith("xid source=kmsg slot=0000:27:00 xid=32 at=")
    log.flush(last=True)
    assert len(lines.lines) == LINES_PER_MINUTE + 2


@pytest.mark.pain(6)
def test_what_is_told_and_what_is_left_out_is_all_there_was(logger: logging.Logger, lines: Lines) -> None:
    now_s, rng = 0.0, random.Random(7)
    log = XidLog("nvml", logger, lambda: now_s)
    for _ in range(2_000):
        now_s += rng.choice((0.01, 0.1, 1.0))
        log.tell(now_s, {"slot": "0000:19:00", "xid": 45})
    log.flush(last=True)
    left_out = [int(found[1]) for line in lines.lines if (found := re.search(r"left_out=(\d+)", line))]
    assert left_out
    assert sum(left_out) + len(lines.lines) - len(left_out) == 2_000
