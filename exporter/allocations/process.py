"""Who has a process on which GPU: what can be said where no scheduler is asked.

A workload is seen only while it computes, so nothing here makes a GPU free. The driver gives process ids, and the
control group of a process says whose it is. Process ids are those of the host, so the exporter must see its /proc.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from exporter.allocation import Allocations, AllocationSource, Claim, Device, Holder
from exporter.cgroups import JobCgroup, parse_process
from exporter.collector import NodeState
from exporter.config import PROCFS, path
from exporter.environ import owner, read_environ
from exporter.errors import Reason

LOGS = path(
    "collector.job.container-logs", Path("/var/log/containers"), "where the kubelet links logs, for names of pods"
)
# Name of such a link: POD_NAMESPACE_CONTAINER-ID.log (kubernetes, pkg/kubelet/kuberuntime/legacy.go).
_LOG = re.compile(r"([a-z0-9.-]{1,253})_([a-z0-9-]{1,63})_([a-z0-9-]{1,63})-([0-9a-f]{64})\.log")
_CONTAINER_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_JOB_ID = re.compile(r"\d{1,20}")
_MAX_BYTES: Final = 64 * 1024

Names = Mapping[str, Holder]


def pod_names(folder: Path) -> Names:
    """Pods by the id of a container; empty where there is no such folder."""
    try:
        found = [_LOG.fullmatch(link.name) for link in folder.iterdir()]
    except OSError:
        return {}
    return {
        match[4]: Holder("k8s", pod=match[1], namespace=match[2], container=match[3])
        for match in found
        if match is not None
    }


class ProcessSource(AllocationSource):
    """Finds the job, the pod or at least the user of every process that the driver reports."""

    name = "process"
    options = (LOGS,)
    reasons = ("gone",)
    by_process = True

    def read(self, node: NodeState) -> Allocations | None:
        """What runs on the GPUs of the last driver cycle; None if the driver gives no processes."""
        readings = [reading for reading in node.readings if reading.processes is not None]
        if not readings:
            return None
        names: Names | None = None
        claims: list[Claim] = []
        dropped: list[Reason] = []
        holders: dict[int, Holder] = {}
        for reading in readings:
            for process in reading.processes or ():
                if process.pid not in holders:
                    try:
                        text, user = self._whose(process.pid)
                    except OSError:  # it has ended since, or is one of another process id space
                        dropped.append("gone")
                        continue
                    job = parse_process(text)
                    if job is not None and job.kind == "k8s" and names is None:
                        names = pod_names(self.settings[LOGS])
                    holders[process.pid] = self._holder(process.pid, job, text, user, names or {})
                claims.append(Claim(holders[process.pid], frozenset({Device("uuid", reading.identity.uuid)})))
        return Allocations(tuple(dict.fromkeys(claims)), dropped=tuple(dropped))

    def _whose(self, pid: int) -> tuple[str, str]:
        """Control groups and user of a process; raises OSError if it has gone."""
        procfs = self.settings[PROCFS]
        with (procfs / str(pid) / "cgroup").open("rb") as file:
            text = file.read(_MAX_BYTES).decode("utf-8", "replace")
        return text, owner(procfs, pid)

    def _holder(self, pid: int, job: JobCgroup | None, text: str, user: str, names: Names) -> Holder:
        if job is None:
            return Holder("bare", user=user)
        if job.kind == "slurm":
            return Holder("slurm", self._number(pid, job.job_id), job.user or user)
        containers = [names[found] for found in _CONTAINER_ID.findall(text) if found in names]
        return containers[0] if containers else Holder("k8s", pod=job.job_id)

    def _number(self, pid: int, job_id: str) -> str:
        """The number of a Slurm job whose control group has another name."""
        if job_id.isdigit():
            return job_id
        try:
            number = read_environ(self.settings[PROCFS], pid, ("SLURM_JOB_ID",)).get("SLURM_JOB_ID", "")
        except OSError:
            return job_id
        return number if _JOB_ID.fullmatch(number) else job_id


SOURCE = ProcessSource
