"""What the operator chose, parsed once in `exporter.cli` and passed down."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one exporter.

    Attributes:
        interval_s: length of a driver cycle.
        deadline_s: how long a driver call may be silent before the worker counts as stuck.
        slow_interval_s: how often counters and limits are read.
        static_interval_s: how often identities and permanent refusals are asked again.
        replace_after_s: after how long a stuck worker gets one replacement beside it.
        recycle_after_s: age from which a worker that misses a GPU is started anew, since a GPU that came back
            is seen by a new initialisation alone.
        procfs: where /proc is.
        job_directory: folder of files named by NVML index or UUID, one job id a line; None if there is none.
        inventory_file: where the GPUs seen are remembered; None to remember only while running.
        disabled: names of collectors to leave out.
    """

    interval_s: float = 5.0
    deadline_s: float = 5.0
    slow_interval_s: float = 30.0
    static_interval_s: float = 600.0
    replace_after_s: float = 60.0
    recycle_after_s: float = 60.0
    procfs: Path = Path("/proc")
    job_directory: Path | None = None
    inventory_file: Path | None = None
    disabled: frozenset[str] = frozenset()
