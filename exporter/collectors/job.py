"""Which jobs hold which GPUs, from the mapping folder that a scheduler's prolog and epilog keep.

One file per GPU, named by its NVML index or its UUID, one job id a line; no file or an empty one means free.
The format is that of NVIDIA's exporter, so one prolog serves both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from exporter import metrics as m
from exporter.collector import Collector, NodeState
from exporter.config import Settings, optional_path
from exporter.errors import CollectError
from exporter.gpus import allocation_samples
from exporter.readings import Identity, Sample

DIRECTORY = optional_path(
    "collector.job.directory", "folder with one file per GPU, named by index or UUID, that holds the job ids"
)
_MAX_BYTES = 64 * 1024
_FILE_NAME = re.compile(r"\d{1,3}|GPU-[0-9A-Za-z-]{1,90}")
_JOB_ID = re.compile(r"[!-~]{1,128}")


def read_jobs(path: Path) -> tuple[str, ...]:
    """Job ids of one file, each once, in order; () if the file is not there (any more).

    Raises:
        ValueError: the file holds something else than job ids.
        OSError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
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


class JobCollector(Collector):
    """Reads the mapping folder; without one, allocation is unknown and stays off the page."""

    name = "job"
    reasons = ("directory", "format")
    options = (DIRECTORY,)

    def __init__(self, settings: Settings, node: NodeState) -> None:
        super().__init__(settings, node)
        self._jobs_by_file: dict[str, tuple[str, ...] | None] | None = None

    def cycle(self) -> None:
        """Reads one small file per GPU; a file that makes no sense leaves its GPU unknown, not free."""
        folder = self.settings[DIRECTORY]
        if folder is None:
            return
        try:
            names = sorted(path.name for path in folder.iterdir() if _FILE_NAME.fullmatch(path.name))
        except OSError as exc:
            raise CollectError("directory", str(exc)) from exc
        jobs_by_file: dict[str, tuple[str, ...] | None] = {}
        for name in names:
            try:
                jobs_by_file[name] = read_jobs(folder / name)
            except (OSError, ValueError):
                self.health.count("format")
                jobs_by_file[name] = None
        self._jobs_by_file = jobs_by_file

    def samples(self, fresh: bool, now_s: float) -> Iterable[Sample]:
        """Allocation of every GPU whose files could be read."""
        jobs_by_file = self._jobs_by_file
        if not fresh or jobs_by_file is None:
            return
        known: list[Identity] = []
        jobs_by_uuid: dict[str, tuple[str, ...]] = {}
        for gpu in self.node.inventory.gpus:
            jobs = [jobs_by_file.get(name, ()) for name in (gpu.uuid, str(gpu.index))]
            if None in jobs:
                key = (gpu.uuid, gpu.slot, m.GPU_ALLOCATED.field, "format")
                yield Sample(m.FIELD_UNAVAILABLE, key, 1.0)
                continue
            known.append(gpu)
            jobs_by_uuid[gpu.uuid] = tuple(dict.fromkeys(job for part in jobs for job in part or ()))
        yield from allocation_samples(known, jobs_by_uuid, "slurm")


COLLECTOR = JobCollector
