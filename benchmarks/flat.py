"""Whether memory and files stay flat: a census of all processes over a day, and the judgement on it. Pure but for
`Census.take`.

Two points prove nothing, since an interpreter's memory moves in steps. So the second quarter of the day is held
against the last one, by the median, and a straight line is laid through all three quarters after the storm.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.processes import Size, family, size

# What a process may gain from the second quarter to the last, and a day by the fit: noise of the allocator, of which
# a run has shown up to 0.3 MB. A leak of 100 bytes a scrape would be 10 MB.
MOST_GROWTH_MB = 1.5

_ROLES = {"snapshots": "driver process", "events": "event process"}


@dataclass(frozen=True, slots=True)
class Count:
    """One process at one moment.

    Attributes:
        progress: of the day, 0 to 1.
        role: what it does.
        pid: which it is.
        size: how large it is.
    """

    progress: float
    role: str
    pid: int
    size: Size


@dataclass(slots=True)
class Census:
    """Every process below one, over time.

    Attributes:
        pid: the one.
        counts: what was found.
        last: the processes that lived at the end.
    """

    pid: int
    counts: list[Count] = field(default_factory=list)
    last: set[int] = field(default_factory=set)

    def take(self, progress: float) -> None:
        """Counts all processes now."""
        for pid in family(self.pid):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError, KeyError):  # it has just ended
                self.counts.append(Count(progress, self._role(pid), pid, size(pid)))

    def _role(self, pid: int) -> str:
        if pid == self.pid:
            return "parent"
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        return next((role for word, role in _ROLES.items() if word in words), "other")

    def end(self) -> None:
        """Notes who is alive at the end of what is judged."""
        self.last = set(family(self.pid))


@dataclass(frozen=True, slots=True)
class Judgement:
    """How one process fared after the storm.

    Attributes:
        role: what it does.
        second_mb, last_mb: median resident memory in the second and in the last quarter.
        slope_mb: what it gains a day by the straight line through all of it.
        files, threads: least and most of them; the median is judged.
        wrong: what is not flat, in words; () if all is.
    """

    role: str
    second_mb: float
    last_mb: float
    slope_mb: float
    files: tuple[int, int]
    threads: tuple[int, int]
    wrong: tuple[str, ...]


def judge(census: Census, storm: float) -> list[Judgement]:
    """One judgement for each process that lived at the end; one that did not live since the storm is wrong."""
    found: list[Judgement] = []
    for pid in sorted(census.last):
        counts = [count for count in census.counts if count.pid == pid and count.progress > storm]
        if counts:
            found.append(_judge(counts, storm))
    roles = [one.role for one in found]
    expected = ["parent", *_ROLES.values()]
    if sorted(roles) != sorted(expected):
        raise SystemExit(f"soak: processes at the end: {roles}, not {expected}")
    return sorted(found, key=lambda one: expected.index(one.role))


def _judge(counts: Sequence[Count], storm: float) -> Judgement:
    calm = (1.0 - storm) / 3
    second = [count.size for count in counts if count.progress <= storm + calm]
    last = [count.size for count in counts if count.progress > 1.0 - calm]
    role = counts[0].role
    if not second or not last:
        return Judgement(role, 0.0, 0.0, 0.0, (0, 0), (0, 0), (f"the {role} was started anew after the storm",))
    second_mb = statistics.median(one.resident_mb for one in second)
    last_mb = statistics.median(one.resident_mb for one in last)
    line = statistics.linear_regression([c.progress for c in counts], [c.size.resident_mb for c in counts])
    wrong: list[str] = []
    if last_mb - second_mb > MOST_GROWTH_MB:
        wrong.append(f"the {role} grew from {second_mb:.1f} to {last_mb:.1f} MB")
    if line.slope > MOST_GROWTH_MB:
        wrong.append(f"the {role} gains {line.slope:.1f} MB a day")
    for what, was, now in (
        ("open files", [one.open_files for one in second], [one.open_files for one in last]),
        ("threads", [one.threads for one in second], [one.threads for one in last]),
    ):
        if statistics.median(now) > statistics.median(was):
            wrong.append(f"the {role} has {statistics.median(now):g} {what}, {statistics.median(was):g} before")
    files = [count.size.open_files for count in counts]
    threads = [count.size.threads for count in counts]
    return Judgement(
        role,
        second_mb,
        last_mb,
        line.slope,
        (min(files), max(files)),
        (min(threads), max(threads)),
        tuple(wrong),
    )
