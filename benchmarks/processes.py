"""What processes cost, from /proc: CPU time, memory, open files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
MB = 1e6


@dataclass(frozen=True, slots=True)
class Size:
    """One process at one moment.

    Attributes:
        resident_mb: its memory, shared pages counted whole (VmRSS).
        proportional_mb: its memory, each page divided by the number of processes that share it (Pss).
        open_files: its file descriptors.
        threads: its threads.
    """

    resident_mb: float
    proportional_mb: float
    open_files: int
    threads: int


def family(pid: int) -> list[int]:
    """This process and all below it, parents first."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").iterdir():
            try:
                found += map(int, (task / "children").read_text().split())
            except (FileNotFoundError, ProcessLookupError):
                continue  # the thread has just ended
    return found


def cpu_s(pids: Iterable[int]) -> float:
    """CPU time that processes have used, threads that have ended included (proc(5), stat fields 14 and 15)."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS_PER_S


def rest_cpu_s(pids: Iterable[int]) -> float:
    """CPU time of the threads that run now, to the nanosecond (kernel Documentation/scheduler/sched-stats.rst).

    At rest a process wakes for less than a tick at a time, which the ticks of `cpu_s` miss or count whole.
    """
    found_ns = 0
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found_ns += int((task / "schedstat").read_text().split()[0])
    return found_ns / 1e9


def size(pid: int) -> Size:
    """Memory and files of one process; raises FileNotFoundError when it has ended."""
    folder = Path(f"/proc/{pid}")
    status = _fields(folder / "status")
    rollup = _fields(folder / "smaps_rollup")
    return Size(
        resident_mb=_kib(status["VmRSS"]),
        proportional_mb=_kib(rollup["Pss"]),
        open_files=len(list((folder / "fd").iterdir())),
        threads=int(status["Threads"]),
    )


def _fields(path: Path) -> dict[str, str]:
    pairs = (line.partition(":") for line in path.read_text().splitlines())
    return {name: value.strip() for name, colon, value in pairs if colon}


def _kib(value: str) -> float:
    return int(value.split()[0]) * 1024 / MB
