"""Jobs by GPU, from the folder that a scheduler's prolog and epilog keep.

One file per GPU, named by its NVML index, its UUID or the UUID of one of its MIG devices; one job id a line; no file or
an empty one means free. Numbers as names are the convention of NVIDIA's exporter (README of dcgm-exporter, "HPC jobs"),
so one prolog serves both.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from exporter.allocation import FREE, Allocations, AllocationSource, Claim, Device, Holder
from exporter.collector import NodeState
from exporter.config import optional_path
from exporter.errors import CollectError, Reason

DIRECTORY = optional_path(
    "collector.job.directory", "folder with one file per GPU, named by index or UUID, that holds the job ids"
)
_MAX_BYTES = 64 * 1024
_FILE_NAME = re.compile(r"(?P<index>\d{1,3})|(?P<uuid>GPU-[0-9A-Za-z-]{1,90})|(?P<mig>MIG-[0-9A-Za-z-]{1,90})")
_JOB_ID = re.compile(r"[!-~]{1,128}")


def read_jobs(path: Path) -> tuple[str, ...]:
    """Job ids of one file, each once, in order; () if the file is not there (any more).

    Raises:
        ValueError: the file holds something else than job ids.
        OSError: it cannot be read.
    """
    try:
        # Opening a pipe would wait for its writer.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ValueError(f"{path.name} is no file")
            content = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return ()
    if len(content) > _MAX_BYTES:
        raise ValueError(f"{path.name} is larger than {_MAX_BYTES} bytes")
    jobs = [line.strip() for line in content.decode("ascii").splitlines() if line.strip()]
    bad = [job for job in jobs if not _JOB_ID.fullmatch(job)]
    if bad:
        raise ValueError(f"{path.name} holds no job id: {bad[0]!r}")
    return tuple(dict.fromkeys(jobs))


def _device(name: str) -> Device | None:
    """The device that a file is about, None if its name names none."""
    found = _FILE_NAME.fullmatch(name)
    if found is None:
        return None
    if found["index"]:
        return Device("index", str(int(name)))
    return Device("uuid", name) if found["uuid"] else Device("mig", name)


class MappingSource(AllocationSource):
    """Reads one small file per GPU; a file that makes no sense leaves its GPU unknown, not free."""

    name = "mapping"
    options = (DIRECTORY,)
    reasons = ("directory", "format")

    def read(self, node: NodeState) -> Allocations | None:
        """What the folder says now."""
        folder = self.settings[DIRECTORY]
        if folder is None:
            return None
        try:
            names = sorted(path.name for path in folder.iterdir())
        except OSError as exc:
            raise CollectError("directory", str(exc)) from exc
        claims: list[Claim] = []
        unsure: list[tuple[Device, Reason]] = []
        dropped: list[Reason] = []
        for name in names:
            device = _device(name)
            if device is None:
                continue
            try:
                jobs = read_jobs(folder / name)
            except (OSError, ValueError):
                unsure.append((device, "format"))
                dropped.append("format")
                continue
            claims += [Claim(Holder("slurm", job), frozenset({device})) for job in jobs]
        return Allocations(tuple(claims), unsure=tuple(unsure), rest=FREE, dropped=tuple(dropped))


SOURCE = MappingSource
