"""Control groups of jobs: where Slurm and Kubernetes put them, and to which job a process belongs.

Layouts, with the source of each:
    * Slurm, cgroup v2: `system.slice/[NODE_]slurmstepd.scope/job_N` (slurm.schedmd.com/cgroup_v2.html), or the job's
      SLUID instead of `job_N`; the slice can be another one (`CgroupSlice` in cgroup.conf);
    * Slurm, cgroup v1: `CONTROLLER/slurm[_NODE]/uid_N/job_N` (slurm.schedmd.com/cgroups.html);
    * Kubernetes: `[kubelet.slice/kubelet-]kubepods.slice/kubepods-QOS.slice/kubepods-QOS-podUID.slice` with the systemd
      driver, where `-` inside the UID is written `_`, or `kubepods/QOS/podUID`; pods of the class guaranteed stand
      one level higher. A static pod has 32 hexadecimal digits as its UID.

Nothing is read but the names of folders, and no folder below a job's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Hierarchy = Literal["v1", "v2", "hybrid", "none"]
"""v2: unified; v1: one tree a controller; hybrid: v1 with an empty unified tree beside it; none: no control groups."""

_CONTROLLERS: Final = ("devices", "memory", "cpuset", "freezer", "pids", "cpu,cpuacct", "cpuacct", "cpu", "systemd")
_SCOPE: Final = re.compile(r"(?:.+_)?slurmstepd\.scope")
_SLURM_V1: Final = re.compile(r"slurm(?:_.+)?")
_UID: Final = re.compile(r"uid_([0-9]{1,10})")
# A process whose job has ended sits in a path that ends in " (deleted)".
# From Slurm 26.05 on a job's folder has its SLUID as its name, unless CgroupJobIdPaths=yes (cgroup.conf(5)).
_JOB: Final = re.compile(r"(?:job_(?=[0-9])|(?=s))([0-9]{1,20}|s[0-9A-Z]{13})(?: \(deleted\))?")
_KUBEPODS: Final = re.compile(r"(?:.+-)?kubepods(?:\.slice)?")
_QOS: Final = re.compile(r"burstable|besteffort|(?:.+-)?kubepods-(?:burstable|besteffort)\.slice")
_POD: Final = re.compile(
    r"(?:.+-)?pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?(?: \(deleted\))?"
)
# Users create control groups of any name below this one, so nothing in it says what it is.
_USERS: Final = "user.slice"


@dataclass(frozen=True, slots=True)
class JobCgroup:
    """The control group of one job on this node.

    Attributes:
        kind: who made it.
        job_id: Slurm's number, or its SLUID where the path holds no number; the UID of the pod.
        user: numeric user id where the path holds one (Slurm on v1), else "".
        path: below the root of control groups (from a walk) or of its hierarchy (from a process); no leading "/".
    """

    kind: Literal["slurm", "k8s"]
    job_id: str
    user: str
    path: str


def hierarchy(root: Path) -> Hierarchy:
    """Which control groups are mounted at `root` (/sys/fs/cgroup)."""
    if (root / "cgroup.controllers").is_file():
        return "v2"
    if (root / "unified" / "cgroup.controllers").is_file():
        return "hybrid"
    if any((root / controller / "cgroup.procs").is_file() for controller in _CONTROLLERS):
        return "v1"
    return "none"


def job_cgroups(root: Path) -> Iterator[JobCgroup]:
    """Every job that has a control group, in the order of their paths.

    Law: each (kind, job id) once. On v1 and hybrid a job has one in several controllers; the path of the first that
    has it is given, `devices` before the others.

    Args:
        root: /sys/fs/cgroup.
    """
    trees = [""] if hierarchy(root) == "v2" else [name for name in _CONTROLLERS if (root / name).is_dir()]
    seen: set[tuple[str, str]] = set()
    for tree in trees:
        for job in _below(root, tree, depth=2):
            if (job.kind, job.job_id) not in seen:
                seen.add((job.kind, job.job_id))
                yield job


def slurm_folders(root: Path) -> Iterator[str]:
    """The folders, below `root`, in which Slurm keeps the control groups of its jobs; they outlive the jobs."""
    if hierarchy(root) == "v2":
        yield from _scopes(root, "", depth=2)
        return
    for tree in _CONTROLLERS:
        yield from (f"{tree}/{name}" for name in _folders(root, tree) if _SLURM_V1.fullmatch(name))


def other_folders(root: Path, folder: str) -> list[str]:
    """Names in one of `slurm_folders` that are neither a job nor known to be something else."""
    names = [name for name in _folders(root, folder) if name != "system"]  # where slurmd keeps processes of its own
    return [name for name in names if not (_JOB.fullmatch(name) or _UID.fullmatch(name))]


def parse_process(text: str) -> JobCgroup | None:
    """The job of a process.

    Args:
        text: content of /proc/PID/cgroup. Of several hierarchies the first that names a job counts.

    Returns:
        None if it belongs to none; a Slurm job that runs inside of a pod is the job.
    """
    for line in text.splitlines():
        job = _of_path(line.split(":", 2)[-1])
        if job is not None:
            return job
    return None


def _of_path(path: str) -> JobCgroup | None:
    # Seen from inside of a cgroup namespace a path starts with "/..", so names are looked for at any depth
    # (man 7 cgroup_namespaces). The outermost counts: a job may make control groups below its own.
    parts = path.strip("/").split("/")
    pod: JobCgroup | None = None
    for at, part in enumerate(parts):
        if part == _USERS:
            break
        following = parts[at + 1 : at + 3]
        if _SCOPE.fullmatch(part) and following and (job := _JOB.fullmatch(following[0])):
            return JobCgroup("slurm", job[1], "", "/".join(parts[: at + 2]))
        if _SLURM_V1.fullmatch(part) and len(following) == 2:
            user, job = _UID.fullmatch(following[0]), _JOB.fullmatch(following[1])
            if user and job:
                return JobCgroup("slurm", job[1], user[1], "/".join(parts[: at + 3]))
        if pod is None and (found := _POD.fullmatch(part)):
            pod = JobCgroup("k8s", found[1].replace("_", "-"), "", "/".join(parts[: at + 1]))
    return pod


def _folders(root: Path, path: str) -> list[str]:
    """Names of the folders in a folder, sorted; none if it has gone or may not be read."""
    try:
        with os.scandir(root / path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _below(root: Path, path: str, depth: int) -> Iterator[JobCgroup]:
    """Jobs of a tree; slices are followed `depth` levels down, everything else only by its name."""
    for name in _folders(root, path):
        inner = f"{path}/{name}" if path else name
        if _SCOPE.fullmatch(name):
            yield from _slurm_jobs(root, inner, "")
        elif _SLURM_V1.fullmatch(name):
            for user in _folders(root, inner):
                if found := _UID.fullmatch(user):
                    yield from _slurm_jobs(root, f"{inner}/{user}", found[1])
        elif _KUBEPODS.fullmatch(name):
            yield from _pods(root, inner)
        elif depth and name != _USERS and (name.endswith(".slice") or name == "kubelet"):
            yield from _below(root, inner, depth - 1)


def _scopes(root: Path, path: str, depth: int) -> Iterator[str]:
    """Slurm's scopes in slices, as deep as `_below` goes."""
    for name in _folders(root, path):
        inner = f"{path}/{name}" if path else name
        if _SCOPE.fullmatch(name):
            yield inner
        elif depth and name != _USERS and name.endswith(".slice"):
            yield from _scopes(root, inner, depth - 1)


def _slurm_jobs(root: Path, path: str, user: str) -> Iterator[JobCgroup]:
    for name in _folders(root, path):
        if found := _JOB.fullmatch(name):
            yield JobCgroup("slurm", found[1], user, f"{path}/{name}")


def _pods(root: Path, path: str) -> Iterator[JobCgroup]:
    for name in _folders(root, path):
        if found := _POD.fullmatch(name):
            yield JobCgroup("k8s", found[1].replace("_", "-"), "", f"{path}/{name}")
        elif _QOS.fullmatch(name):
            yield from _pods(root, f"{path}/{name}")
