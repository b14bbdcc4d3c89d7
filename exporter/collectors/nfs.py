"""NFS mounts: operations, their time, requests sent again and timeouts, without touching a mount.

Law: nothing here, or elsewhere in the exporter, opens, lists or asks for the state of a path on a mount, since each of
these hangs with the server. `/proc/self/mountstats` has the numbers, `/proc/self/mountinfo` says which mount points
are one file system; the kernel writes both from memory (fs/nfs/super.c nfs_show_stats, net/sunrpc/stats.c).

The mounts are those of the exporter's own mount namespace.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from exporter import metrics as m
from exporter.collector import Collector, NodeState
from exporter.config import PROCFS, Settings
from exporter.errors import Reason
from exporter.kernel import READ_REASONS, possible, read_text, whole_number
from exporter.readings import Sample

FAMILIES = (m.NFS_OP_SECONDS, m.NFS_OPS, m.NFS_RETRANS, m.NFS_TIMEOUTS)
ALWAYS: Final = ("READ", "WRITE", "COMMIT", "GETATTR")
"""Operations whose rows stand on the page from the mount on; any other gets its rows when it is first used."""

_TYPES: Final = ("nfs", "nfs4")
_OP: Final = re.compile(r"\s+([A-Z0-9_]+):\s+([0-9 ]+)")
_RPC_VERSION: Final = re.compile(r"\s+RPC iostats version:\s+([0-9]+)\.")
# Space, tab, newline, backslash and # stand as octal numbers (kernel lib/string_helpers.c).
_ESCAPED: Final = re.compile(r"\\(0[0-7]{2}|1[0-7]{2})")
_COLUMNS: Final = 8  # ops, transmissions, timeouts, bytes out, bytes in, queue ms, round trip ms, execute ms


class Operation(NamedTuple):
    """Counters of one operation: finished, sent, major timeouts, milliseconds from request to end."""

    ops: int
    transmissions: int
    timeouts: int
    execute_ms: int


@dataclass(slots=True)
class Mount:
    """One NFS mount point.

    Attributes:
        path: where it is mounted.
        operations: counters by name.
        bad: how many of its lines made no sense.
    """

    path: str
    operations: dict[str, Operation] = field(default_factory=dict)
    bad: int = 0


def unescape(text: str) -> str:
    """A path as it is, from a path as the kernel writes it."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), text)


def parse_mountstats(text: str) -> list[Mount]:
    """NFS mounts in the order of the file, each mount point as often as it stands there."""
    mounts: list[Mount] = []
    mount: Mount | None = None
    in_operations = False
    for line in text.split("\n"):
        if line.startswith(("device ", "no device ")):
            mount, in_operations = _header(line), False
            if mount is not None:
                mounts.append(mount)
        elif mount is None:
            continue
        elif line.strip() == "per-op statistics":
            in_operations = True
        elif (version := _RPC_VERSION.match(line)) and version[1] != "1":
            mount.bad += 1
            mount = None
        elif in_operations and line.strip():
            _operation(mount, line)
    return mounts


def _header(line: str) -> Mount | None:
    """The mount of a line that begins one, None if it is not NFS."""
    words = line.split(" ")
    # device NAME mounted on PATH with fstype TYPE [statvers=N]: blanks in names are escaped
    if words[2:4] != ["mounted", "on"] or words[5:7] != ["with", "fstype"] or len(words) < 8:
        return None
    return Mount(unescape(words[4])) if words[7] in _TYPES else None


def _operation(mount: Mount, line: str) -> None:
    found = _OP.fullmatch(line)
    numbers = [whole_number(word) for word in found[2].split()] if found else []
    # Kernels since 5.3 add a ninth column, errors (RPC iostats version 1.1); more may come.
    ops, transmissions, timeouts, execute_ms = [*numbers[:3], numbers[7]] if len(numbers) >= _COLUMNS else [None] * 4
    if not found or ops is None or transmissions is None or timeouts is None or execute_ms is None:
        mount.bad += 1
    else:
        mount.operations[found[1]] = Operation(ops, transmissions, timeouts, execute_ms)


def parse_devices(text: str) -> dict[str, list[str]]:
    """Device numbers of NFS mounts by mount point, in order, from /proc/self/mountinfo (man 5 proc_pid_mountinfo).

    Mounts with the same number are one file system, and so share their counters.
    """
    devices: dict[str, list[str]] = defaultdict(list)
    for line in text.split("\n"):
        words, dash, source = line.partition(" - ")
        columns = words.split(" ")
        if dash and len(columns) >= 6 and source.split(" ")[0] in _TYPES:
            devices[unescape(columns[4])].append(columns[2])
    return dict(devices)


def distinct(mounts: Iterable[Mount], devices: Mapping[str, list[str]]) -> list[Mount]:
    """Mounts that give series.

    Laws: each mount point once: of several on top of each other the last, which is the one that is seen; each file
    system once: of several mount points (bind mounts, one export mounted twice) the first.
    """
    seen: dict[str, int] = defaultdict(int)
    visible: dict[str, tuple[str, Mount]] = {}
    for mount in mounts:
        number = seen[mount.path]
        seen[mount.path] += 1
        known = devices.get(mount.path, [])
        # Without a number (an old list, a race with a mount) a mount point counts as a file system of its own.
        device = known[number] if number < len(known) else f"at {mount.path}"
        visible[mount.path] = (device, mount)
    first: dict[str, Mount] = {}
    for device, mount in visible.values():
        first.setdefault(device, mount)
    return list(first.values())


def nfs_samples(path: str, operations: Mapping[str, Operation]) -> Iterator[Sample | Reason]:
    """Samples of one mount; in the place of a value that cannot be, the reason why it was dropped."""
    for name, found in operations.items():
        if name not in ALWAYS and not found.ops:
            continue
        # Older kernels count an operation that was given up before it was sent, so the difference can be
        # below 0 (net/sunrpc/stats.c rpc_count_iostats_metrics has the remark).
        resent = found.transmissions - found.ops
        for family, count, scale in (
            (m.NFS_OP_SECONDS, found.execute_ms, 1e3),
            (m.NFS_OPS, found.ops, 1.0),
            (m.NFS_RETRANS, resent, 1.0),
            (m.NFS_TIMEOUTS, found.timeouts, 1.0),
        ):
            yield Sample(family, (path, name), count / scale) if possible(count) else "out_of_range"


class NfsCollector(Collector):
    """Reads two files of proc; a node without NFS is no error."""

    name = "nfs"
    reasons = ("format", "out_of_range", *READ_REASONS)

    def __init__(self, settings: Settings, node: NodeState) -> None:
        super().__init__(settings, node)
        self._rows: tuple[Sample, ...] = ()
        self._absent: Reason | None = None

    def cycle(self) -> None:
        """Reads both files, whatever state the servers are in."""
        own = self.settings[PROCFS] / "self"
        text = read_text(own / "mountstats")
        mounts = parse_mountstats(text or "")
        devices = parse_devices(read_text(own / "mountinfo") or "") if mounts else {}
        rows: list[Sample] = []
        for mount in distinct(mounts, devices):
            for _ in range(mount.bad):
                self.health.count("format")
            for row in nfs_samples(mount.path, mount.operations):
                if isinstance(row, Sample):
                    rows.append(row)
                else:
                    self.health.count(row)
        self._rows = tuple(rows)
        self._absent = "not_supported" if text is None else None if rows else "not_found"

    def samples(self, fresh: bool, now_s: float) -> Iterable[Sample]:
        """Counters of the last cycle, none when it is stale."""
        if not fresh:
            return
        yield from self._rows
        if self._absent is not None:
            for family in FAMILIES:
                yield Sample(m.FIELD_UNAVAILABLE, ("", "", family.field, self._absent), 1.0)


COLLECTOR = NfsCollector
