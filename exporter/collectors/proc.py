"""Threads that cannot be woken: state D, by what they wait in, and for how long.

A hung driver or file server shows here first: its callers sleep uninterruptibly (man 5 proc_pid_stat, state D). All
threads are looked at, since it is one thread of a data loader that hangs while its process seems to sleep.

The kernel has no time stamp of a sleep, but it counts how often a thread was switched out. A thread in state D at two
scans with the same count has not run in between, so it has slept without a break; the kernel's own watch for hung
tasks compares the same number (kernel/hung_task.c check_hung_task).
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from exporter import metrics as m
from exporter.collector import Collector, NodeState
from exporter.config import PROCFS, Settings
from exporter.errors import CollectError, Reason
from exporter.kernel import READ_REASONS, read_text
from exporter.readings import Sample

CLASSES: Final = ("nvidia", "nfs", "other")
FAMILIES = (m.NODE_BLOCKED_TASKS, m.NODE_BLOCKED_TASK_OLDEST)

# Functions of NVIDIA's kernel modules (nv*, nvidia_*, _nv012rm, nvkms; uvm_* of nvidia-uvm; os_acquire_* of
# kernel-open/nvidia/os-interface.c), and not those of NVMe disks and other `nv` words of the kernel itself.
_NVIDIA: Final = re.compile(r"_?nv(?!me|dimm|mem|ram)|uvm_|os_acquire_")
# rpc_wait_bit_killable is where a call to a server that is gone waits (net/sunrpc/sched.c); __ before it on some.
_NFS: Final = re.compile(r"_*(?:nfs|rpc_|xprt_)")
_SWITCHES: Final = re.compile(r"^(?:non)?voluntary_ctxt_switches:\s*([0-9]{1,20})$", re.MULTILINE)
_CAPABILITIES: Final = re.compile(r"^CapEff:\s*([0-9a-fA-F]{1,16})$", re.MULTILINE)
_CAP_SYS_PTRACE: Final = 19  # include/uapi/linux/capability.h; `wchan` of another user's thread asks for it
_STARTTIME: Final = 19  # field 22 of stat, counted from the state, which is field 3
_THREADS: Final = 17  # field 20
_STAT_BYTES: Final = 2048  # 52 numbers of at most 21 bytes, and a name of at most 64

_SHORTEST_PERIOD_S: Final = 15.0
_LONGEST_PERIOD_S: Final = 120.0
_MOST_OF_A_CORE: Final = 0.005


class Thread(NamedTuple):
    """A thread of this boot: thread id and start, in ticks since boot, since ids come again."""

    tid: int
    starttime: int


class Blocked(NamedTuple):
    """A thread in state D.

    Attributes:
        where: "nvidia", "nfs" or "other".
        switches: how often it was switched out, None if that cannot be read.
        since_s: monotonic time of the first of the scans that saw it in this sleep.
    """

    where: str
    switches: int | None
    since_s: float


def classify(wchan: str) -> str:
    """The class of a kernel function that a thread waits in; "0" and "" are "other"."""
    if _NVIDIA.match(wchan):
        return "nvidia"
    return "nfs" if _NFS.match(wchan) else "other"


def parse_stat(stat: bytes) -> list[bytes]:
    """Fields of a stat line from the state on, [] if it is none.

    The name before it stands in brackets and may hold brackets and blanks itself, so the last bracket counts.
    """
    return stat[stat.rfind(b")") + 1 :].split() if b")" in stat else []


def blocked_samples(blocked: Iterable[Blocked], scan_s: float, hidden: Iterable[str] = ()) -> Iterator[Sample]:
    """Samples of one scan, every class but the `hidden` ones; `scan_s` is its monotonic time."""
    found = list(blocked)
    for where in (name for name in CLASSES if name not in hidden):
        ages_s = [scan_s - one.since_s for one in found if one.where == where]
        yield Sample(m.NODE_BLOCKED_TASKS, (where,), float(len(ages_s)))
        yield Sample(m.NODE_BLOCKED_TASK_OLDEST, (where,), max(ages_s, default=0.0))


@dataclass(frozen=True, slots=True)
class _Scan:
    """What one scan found.

    Attributes:
        at_s: its monotonic time.
        blocked: threads in state D.
        hidden: classes that cannot be told from "other".
        absent: why nothing can be told, None if it can.
    """

    at_s: float
    blocked: Mapping[Thread, Blocked] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    absent: Reason | None = None


class ProcCollector(Collector):
    """Scans the threads of the node, every 15 s, or more rarely where that would cost more than 1/200 of a core.

    Without the right to see where other users' threads wait, all of them are "other" and the other classes are
    absent. Where other users' processes are hidden, nothing is told: a count of what can be seen would look healthy.
    """

    name = "proc"
    reasons = ("format", *READ_REASONS)

    def __init__(self, settings: Settings, node: NodeState) -> None:
        super().__init__(settings, node)
        self.period_s = _SHORTEST_PERIOD_S
        self._last = _Scan(0.0)  # replaced whole: another thread sees one scan or the next

    def cycle(self) -> None:
        """One scan; threads that end while it runs are normal."""
        began_s = time.thread_time()
        self.scan(time.monotonic())
        cost_s = time.thread_time() - began_s
        self.period_s = min(_LONGEST_PERIOD_S, max(_SHORTEST_PERIOD_S, cost_s / _MOST_OF_A_CORE))

    def scan(self, scan_s: float) -> None:
        """Looks at every thread once.

        Args:
            scan_s: monotonic seconds.

        Raises:
            CollectError: the list of processes cannot be read.
        """
        root = self.settings[PROCFS]
        try:
            pids = [name for name in os.listdir(root) if name.isdigit()]  # noqa: PTH208 - names alone
        except OSError as exc:
            raise CollectError("no_permission" if isinstance(exc, PermissionError) else "unknown", str(exc)) from exc
        if "1" not in pids:
            # Every process namespace has a process 1: where it does not show, processes are hidden (hidepid=2).
            self._last = _Scan(scan_s, absent="no_permission" if pids else "not_found")
            return
        hidden = () if _may_see_wchan(root) else ("nvidia", "nfs")
        blocked: dict[Thread, Blocked] = {}
        try:
            for pid in pids:
                for folder, thread in self._threads_in_d(f"{root}/{pid}"):
                    blocked[thread] = self._look(Path(folder), thread, scan_s, bool(hidden))
        except PermissionError:  # hidepid=1: the folder of a process shows, its files may not be read
            self._last = _Scan(scan_s, absent="no_permission")
            return
        self._last = _Scan(scan_s, blocked, hidden)

    def _threads_in_d(self, folder: str) -> Iterator[tuple[str, Thread]]:
        """Folder and name of each thread of a process that is in state D now."""
        fields = self._fields(_read_stat(folder))
        if not fields:
            return
        pid = folder[folder.rfind("/") + 1 :]
        if fields[0] == b"D":
            yield folder, Thread(int(pid), int(fields[_STARTTIME]))
        if fields[_THREADS] == b"1":
            return  # most processes, so the listing of its one thread is saved
        try:
            tids = os.listdir(f"{folder}/task")  # noqa: PTH208 - as above
        except PermissionError:
            raise
        except OSError:  # it has ended
            return
        for tid in tids:
            if tid == pid or not tid.isdigit():
                continue
            stat = _read_stat(f"{folder}/task/{tid}")
            # The state alone: nearly no thread is in D, so nearly no line is taken apart.
            if stat[stat.rfind(b")") + 2 :][:1] == b"D" and (fields := self._fields(stat)):
                yield f"{folder}/task/{tid}", Thread(int(tid), int(fields[_STARTTIME]))

    def _fields(self, stat: bytes) -> list[bytes]:
        """Fields of a stat line from the state on, [] if there is none."""
        fields = parse_stat(stat)
        if len(fields) > _STARTTIME and fields[_STARTTIME].isdigit():
            return fields
        if stat:
            self.health.count("format")
        return []

    def _look(self, folder: Path, thread: Thread, scan_s: float, hidden: bool) -> Blocked:
        """Where a thread waits, and since when it does."""
        wchan = status = None
        try:
            wchan, status = read_text(folder / "wchan"), read_text(folder / "status")
        except CollectError as exc:
            self.health.count(exc.reason)
        counts = [int(count) for count in _SWITCHES.findall(status or "")]
        switches = sum(counts) if len(counts) == 2 else None
        before = self._last.blocked.get(thread)
        unbroken = before is not None and switches is not None and before.switches == switches
        where = "other" if hidden else classify((wchan or "").strip())
        return Blocked(where, switches, before.since_s if before and unbroken else scan_s)

    def samples(self, fresh: bool, now_s: float) -> Iterable[Sample]:
        """The last scan, nothing when it is stale."""
        if not fresh:
            return
        last = self._last
        if last.absent is None:
            yield from blocked_samples(last.blocked.values(), last.at_s, last.hidden)
        for family in FAMILIES:
            for where in last.hidden:
                yield Sample(m.FIELD_UNAVAILABLE, ("", "", f"{family.field}/{where}", "no_permission"), 1.0)
            if last.absent is not None:
                yield Sample(m.FIELD_UNAVAILABLE, ("", "", family.field, last.absent), 1.0)


def _read_stat(folder: str) -> bytes:
    """The stat line of a thread, b"" if it has ended; raises PermissionError."""
    try:
        # os.open and os.read, not open: fewer calls of the kernel, and this runs for every thread of the node.
        file = os.open(f"{folder}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(file, _STAT_BYTES)
        finally:
            os.close(file)
    except PermissionError:
        raise
    except OSError:  # ENOENT at the opening, ESRCH at the reading
        return b""


def _may_see_wchan(root: Path) -> bool:
    """Whether we see where any thread waits: without the capability the kernel says 0 (fs/proc/base.c)."""
    try:
        found = _CAPABILITIES.search(read_text(root / "self" / "status") or "")
    except CollectError:
        return False
    return found is not None and bool(int(found[1], 16) >> _CAP_SYS_PTRACE & 1)


COLLECTOR = ProcCollector
