"""What the tests of allocations share: GPUs, folders as the kernel shows them, and what a collector says of them."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from exporter import metrics as m
from exporter.collector import Collector, NodeState
from exporter.collectors.job import JobCollector
from exporter.config import CGROUP, PROCFS, Option, Settings
from exporter.family import Family
from exporter.inventory import Inventory
from exporter.readings import GpuReading, Identity

NOBODY = 65534


def gpu(number: int, minor: int | None = None, mig_mode: str = "disabled") -> Identity:
    """GPU `number`, with the same minor number unless another is given; -1 is none."""
    uuid, slot = f"GPU-{'abcdefgh'[number]}", f"0000:{0x19 + number:02x}:00"
    known = number if minor is None else minor
    return Identity(uuid, slot, number, mig_mode=mig_mode, minor=None if known < 0 else known)


def node(*gpus: Identity, readings: Iterable[GpuReading] = ()) -> NodeState:
    """A node with these GPUs."""
    inventory = Inventory()
    inventory.update(gpus)
    return NodeState(inventory, "570.1", readings=tuple(readings))


def settings(folder: Path, chosen: dict[Option[Any], object] | None = None) -> Settings:
    """Settings whose control groups and proc stand below a folder."""
    return Settings({CGROUP: folder / "cgroup", PROCFS: folder / "proc", **(chosen or {})})


def rows(collector: Collector, family: Family, fresh: bool = True) -> dict[tuple[str, ...], float]:
    """What a collector knows of one family."""
    return {s.labels: s.value for s in collector.samples(fresh, 0.0) if s.family == family}


def allocated(collector: Collector) -> dict[str, float]:
    """0 or 1 by last letter of the UUID."""
    return {labels[0][-1]: value for labels, value in rows(collector, m.GPU_ALLOCATED).items()}


def reasons(collector: Collector, fresh: bool = True) -> dict[str, str]:
    """Why the allocation of a GPU is not known, by last letter of its UUID."""
    found = [labels for labels in rows(collector, m.FIELD_UNAVAILABLE, fresh) if labels[2] == "gpu_allocated"]
    return {uuid[-1]: reason for uuid, _, _, reason in found}


def holders(collector: Collector) -> set[tuple[str, ...]]:
    """Last letter of the UUID, then kind, job id, user, pod, namespace, container."""
    return {(labels[0][-1], *labels[2:]) for labels in rows(collector, m.GPU_WORKLOAD_INFO)}


def cycled(state: NodeState, chosen: Settings) -> JobCollector:
    """A collector after one cycle."""
    collector = JobCollector(chosen, state)
    collector.cycle()
    return collector


def process(procfs: Path, pid: int, environ: dict[str, str] | bytes = b"", cgroup: str = "0::/\n") -> None:
    """A process as /proc shows it."""
    folder = procfs / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    if not isinstance(environ, bytes):
        environ = b"".join(f"{name}={value}".encode() + b"\0" for name, value in environ.items())
    (folder / "environ").write_bytes(environ)
    (folder / "cgroup").write_text(cgroup)


def group(folder: Path, *pids: int) -> Path:
    """A control group with these processes."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))
    return folder


@contextlib.contextmanager
def plain_user() -> Iterator[None]:
    """Does without the rights of root, on this thread."""
    if os.geteuid():
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter, with a path short enough for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="gm-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
