"""Which GPUs Slurm's jobs hold, from their control groups on this node. Nobody is asked over the network.

Which GPUs a job holds is said, in this order:
    * on cgroup v1 by `devices.list`, where it is a list: `c 195:N` is /dev/nvidiaN (the kernel's devices.txt).
      `a *:* rwm` says nothing: the kernel does not show the exceptions to it (security/device_cgroup.c);
    * by `SLURM_JOB_GPUS` of a process of the batch script or the interactive step, the GPUs of the whole job on this
      node. It is not believed elsewhere: a step inherits it from the node of the batch script (sbatch(1));
    * by `SLURM_STEP_GPUS` of a process of a step: at least these, so that no other GPU counts as free. Neither is
      relative to what the job may see, as `CUDA_VISIBLE_DEVICES` is; that one is used for nothing.

On cgroup v2 devices are kept from a job by a program in the kernel, which nobody can read as a list. The environment of
another user's process needs root or CAP_SYS_PTRACE. A job whose GPUs stay unknown makes every GPU unknown that no one
is known to hold. A job keeps its GPUs until its control group ends, so what was read once is kept until then.

Without PrologFlags=Contain a job has no control group before its first step, so a GPU counts as free only where the
operator says that it is set, or a job has shown it by its step `extern` (slurm.conf(5), PrologFlags).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from exporter.allocation import FREE, Allocations, AllocationSource, Claim, Device, Holder
from exporter.allocations.mapping import DIRECTORY
from exporter.cgroups import JobCgroup, job_cgroups, other_folders, slurm_folders
from exporter.collector import NodeState
from exporter.config import CGROUP, PROCFS, Settings, switch, word
from exporter.environ import owner, read_environ
from exporter.errors import Reason

SLURM = word(
    "collector.job.slurm",
    "auto",
    "look for jobs of Slurm in the control groups; auto: unless there is a mapping folder, which knows them all",
    ("auto", "on", "off"),
)
NUMBERS = word(
    "collector.job.slurm-numbers",
    "auto",
    "what Slurm's number of a GPU is: NVML's index, the minor number, or auto: whichever if both agree",
    ("auto", "index", "minor"),
)
CONTAIN = switch(
    "collector.job.slurm-contain", False, "slurm.conf has PrologFlags=Contain; seen by itself once a job ran"
)
_LINE = re.compile(r"[abc] (?:\d+|\*):(?:\d+|\*) [rwm]+")
_LISTED = re.compile(r"c 195:(\d+) [rwm]+")
_EVERYTHING = re.compile(r"(?:a \*:\*|c \*:\*|c 195:\*) [rwm]+")
_CONTROL_MINORS: Final = 254  # /dev/nvidia-modeset; 255 is /dev/nvidiactl (devices.txt of the kernel)
_WHOLE = re.compile(r"step_(?:batch|interactive)")
_STEP = re.compile(r"step_\d+")
_NUMBERS = re.compile(r"\d{1,4}(?:,\d{1,4})*")
_JOB_ID = re.compile(r"\d{1,20}")
_JOB, _JOB_GPUS, _STEP_GPUS = "SLURM_JOB_ID", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS"
# Set for jobs that hold shares of GPUs (gres/shard, gres/mps) or GPUs without device files: which, nobody says.
_SHARES = ("CUDA_VISIBLE_DEVICES", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")
_COUNTS = ("SLURM_GPUS_ON_NODE", "SLURM_SHARDS_ON_NODE")
_NOTHING = frozenset({"", "NoDevFiles"})
# Bounds on what one job can make us read; the first processes of a step are those that Slurm started.
_MAX_STEPS: Final = 64
_MAX_PIDS: Final = 8
_MAX_DEPTH: Final = 4


@dataclass(slots=True)
class _Job:
    """What is known of one control group.

    Attributes:
        holder: the job.
        devices: GPUs that it holds.
        doubt: why it may hold others too, None if these are all.
    """

    holder: Holder
    devices: set[Device] = field(default_factory=set)
    doubt: Reason | None = "no_data"


class SlurmSource(AllocationSource):
    """Reads the control groups of Slurm's jobs, and the environment of their first processes."""

    name = "slurm"
    options = (SLURM, NUMBERS, CONTAIN)
    reasons = ("format", "no_permission")

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        wanted = settings[SLURM]
        self._on = wanted == "on" or (wanted == "auto" and settings[DIRECTORY] is None)
        self._contained = settings[CONTAIN]
        self._jobs: dict[tuple[str, int], _Job] = {}

    def read(self, node: NodeState) -> Allocations | None:
        """What the jobs hold that have a control group now."""
        root = self.settings[CGROUP]
        folders = list(slurm_folders(root)) if self._on else []
        if not folders:
            return None
        known, self._jobs = self._jobs, {}
        for cgroup in job_cgroups(root):
            if cgroup.kind == "slurm":
                self._look(root, cgroup, known)
        jobs = self._jobs.values()
        doubts: list[Reason] = [job.doubt for job in jobs if job.doubt is not None]
        dropped: list[Reason] = [doubt for doubt in doubts if doubt in self.reasons]
        if any(other_folders(root, folder) for folder in folders):
            doubts.append("format")  # a release of Slurm that names its folders in yet another way
            dropped.append("format")
        if not self._contained:
            doubts.append("no_data")
        claims = (Claim(job.holder, frozenset(job.devices)) for job in jobs if job.devices)
        return Allocations(tuple(claims), rest=doubts[0] if doubts else FREE, dropped=tuple(dropped))

    def _look(self, root: Path, cgroup: JobCgroup, known: dict[tuple[str, int], _Job]) -> None:
        folder = root / cgroup.path
        try:
            key = (cgroup.path, folder.stat().st_ino)  # a job that runs again has another folder of the same name
            job = known.get(key) or _Job(Holder("slurm", cgroup.job_id, cgroup.user))
            if job.doubt is not None:
                self._learn(folder, job)
        except FileNotFoundError:
            return  # it has just ended
        self._jobs[key] = job

    def _learn(self, folder: Path, job: _Job) -> None:
        """Finds out what a job holds; raises FileNotFoundError if it ends meanwhile."""
        steps = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
        self._contained = self._contained or "step_extern" in steps
        minors = _listed_minors(folder / "devices.list")
        if minors is not None:
            job.devices, job.doubt = {Device("minor", minor) for minor in minors}, None
            return
        job.doubt = "no_data"
        whole = [step for step in steps if _WHOLE.fullmatch(step)]
        parts = [step for step in steps if _STEP.fullmatch(step)]
        for step in (*whole, *parts)[:_MAX_STEPS]:
            found = self._first_environ(folder / step, job)
            if found is None:
                continue
            told = _told(found, _JOB_GPUS if step in whole else _STEP_GPUS)
            if not isinstance(told, frozenset):
                job.doubt = told
                continue
            job.devices |= told
            if step in whole:
                job.doubt = None
                return

    def _first_environ(self, step: Path, job: _Job) -> dict[str, str] | None:
        """Variables of the first process of a step that belongs to the job, None if there is none to be read."""
        procfs = self.settings[PROCFS]
        for pid in _first_pids(step):
            try:
                found = read_environ(procfs, pid, (_JOB, _JOB_GPUS, _STEP_GPUS, *_SHARES, *_COUNTS))
                user = owner(procfs, pid)
            except PermissionError:
                job.doubt = "no_permission"
                continue
            except OSError:
                continue
            number, known = found.get(_JOB, ""), job.holder.job_id
            if number == known or (not known.isdigit() and _JOB_ID.fullmatch(number)):
                job.holder = replace(job.holder, job_id=number, user=job.holder.user or user)
                return found
        return None


def _told(found: dict[str, str], name: str) -> frozenset[Device] | Reason:
    """GPUs that a variable lists, or why they cannot be told."""
    text = found.get(name, "")
    if _NUMBERS.fullmatch(text):
        return frozenset(Device("gres", str(int(number))) for number in text.split(","))
    if text not in _NOTHING:
        return "format"
    shares = any(found.get(share, "") not in _NOTHING for share in _SHARES)
    counts = any(found.get(count, "0") != "0" for count in _COUNTS)
    return "not_supported" if shares or counts else frozenset()


def _listed_minors(path: Path) -> set[str] | None:
    """Numbers of the device files that a v1 group may use, None if there is no list or it keeps nothing away."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return None
    if not lines or any(_EVERYTHING.fullmatch(line) or not _LINE.fullmatch(line) for line in lines):
        return None
    minors = {found[1] for line in lines if (found := _LISTED.fullmatch(line))}
    return {minor for minor in minors if int(minor) < _CONTROL_MINORS}


def _first_pids(folder: Path) -> list[int]:
    """The lowest process ids of a step, without those of Slurm itself."""
    found: list[int] = []
    for path in _groups(folder, _MAX_DEPTH):
        try:
            found += [int(line) for line in (path / "cgroup.procs").read_text(encoding="ascii").split()]
        except (OSError, ValueError):
            continue
    return sorted(pid for pid in found if pid > 0)[:_MAX_PIDS]


def _groups(folder: Path, depth: int) -> Iterator[Path]:
    yield folder
    try:
        names = sorted(e.name for e in os.scandir(folder) if depth and e.is_dir(follow_symlinks=False))
    except OSError:
        return
    for name in names:
        if name != "slurm":  # slurmstepd's own, on v2
            yield from _groups(folder / name, depth - 1)


SOURCE = SlurmSource
