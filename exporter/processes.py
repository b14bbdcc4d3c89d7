"""The processes of the GPUs, checked against /proc by the parent, which owns it.

The driver names processes by their ids on the host. A name for one of them, or its absence, means something only
to an exporter that sees the host's processes, so that is proven first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from exporter import metrics as m
from exporter.config import PROCFS, Settings, switch
from exporter.errors import Reason
from exporter.readings import GpuReading, NvmlSnapshot, Process, Sample, Unavailable

PROCESS_MEMORY = switch(
    "collector.nvml.process-memory", False, "serve the GPU memory of each process, by process id and command name"
)
_KTHREADD_PID: Final = "2"  # init/main.c starts kthreadd right after init, in the first namespace alone
_KTHREADD: Final = b"kthreadd\n"


def host_visible(procfs: Path) -> bool:
    """Whether this /proc shows the host's processes, under the ids by which the driver calls them.

    Process 2 of a host is the kernel's thread daemon; in a namespace of its own it is something else, and with
    hidepid it cannot be read. An exporter in a namespace of its own may still have the host's /proc mounted:
    then its own NSpid has an id per namespace, and newer drivers translate ids to the innermost.
    """
    if _read(procfs / _KTHREADD_PID / "comm") != _KTHREADD:
        return False
    lines = _read(procfs / "self" / "status").splitlines()
    ids = next((line.split()[1:] for line in lines if line.startswith(b"NSpid:")), [])  # not before Linux 4.1
    return len(ids) <= 1


def _read(path: Path) -> bytes:
    """The content of a file, b"" if there is none or it may not be read."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def settle(snapshot: NvmlSnapshot, settings: Settings) -> NvmlSnapshot:
    """Keeps the processes that /proc knows, with their command names; counts the others as `gone`.

    Sizes go too, unless the operator asked for them. Reads `comm` alone, which never waits for the process, while
    `cmdline` does.
    """
    procfs = settings[PROCFS] if host_visible(settings[PROCFS]) else None
    dropped: list[Reason] = []
    gpus = tuple(_settle(gpu, procfs, settings[PROCESS_MEMORY], dropped) for gpu in snapshot.gpus)
    return replace(snapshot, gpus=gpus, dropped=(*snapshot.dropped, *dropped))


def _settle(gpu: GpuReading, procfs: Path | None, with_memory: bool, dropped: list[Reason]) -> GpuReading:
    if gpu.down is not None:
        return gpu
    if gpu.processes is None:
        said = [why for field, why in gpu.unavailable if field == m.GPU_PROCESSES.field]
        return _without_memory(gpu, said[0]) if said and with_memory else gpu
    if procfs is None:
        hidden = Unavailable(m.GPU_PROCESSES.field, "no_permission")
        unknown = replace(gpu, processes=None, unavailable=(*gpu.unavailable, hidden))
        return _without_memory(unknown, "no_permission") if with_memory else unknown
    known: list[Process] = []
    for process in gpu.processes:
        comm = _read(procfs / str(process.pid) / "comm").decode(errors="replace").rstrip("\n")
        if comm:
            known.append(replace(process, comm=comm, memory_bytes=process.memory_bytes if with_memory else None))
        else:
            dropped.append("gone")
    settled = replace(gpu, processes=tuple(known))
    unsized = with_memory and any(process.memory_bytes is None for process in known)
    return _without_memory(settled, "no_data") if unsized else settled


def _without_memory(gpu: GpuReading, reason: Reason) -> GpuReading:
    return replace(gpu, unavailable=(*gpu.unavailable, Unavailable(m.GPU_PROCESS_MEMORY.field, reason)))


def process_samples(key: Sequence[str], processes: Sequence[Process] | None) -> Iterator[Sample]:
    """How many processes compute on a GPU, and what each holds where that is known.

    A process on several MIG instances of a board counts once, with its sizes summed.

    Args:
        key: uuid and slot of the board.
        processes: None where the driver does not say.
    """
    if processes is None:
        return
    sizes: dict[int, list[int | None]] = {}
    for process in processes:
        sizes.setdefault(process.pid, []).append(process.memory_bytes)
    yield Sample(m.GPU_PROCESSES, tuple(key), float(len(sizes)))
    comms = {process.pid: process.comm for process in processes}
    for pid, parts in sizes.items():
        known = [part for part in parts if part is not None]
        if len(known) == len(parts):
            yield Sample(m.GPU_PROCESS_MEMORY, (*key, str(pid), comms[pid]), float(sum(known)))
