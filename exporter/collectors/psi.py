"""Pressure stall information: how long tasks of the node, and of each job, waited for CPU, memory and I/O.

Only `total=`, in microseconds, is read; the averages are for people
(kernel Documentation/accounting/psi.rst). Jobs have it in control groups of the unified hierarchy alone
(Documentation/admin-guide/cgroup-v2.rst, `*.pressure`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from exporter import metrics as m
from exporter.cgroups import hierarchy, job_cgroups
from exporter.collector import Collector, NodeState
from exporter.config import CGROUP, PROCFS, Settings, switch
from exporter.errors import CollectError, Reason
from exporter.kernel import READ_REASONS, possible, read_text
from exporter.readings import Sample

JOBS = switch("collector.psi.jobs", True, "also the pressure of each job and pod, from its control group")
RESOURCES = ("cpu", "io", "memory")
_LINE = re.compile(r"^(some|full) .*\btotal=([0-9]{1,20})$", re.MULTILINE)


def parse_pressure(text: str) -> dict[str, int]:
    """Microseconds by kind ("some", "full") of one pressure file.

    Raises:
        CollectError: `format`: there is no total in it, or an impossible one.
    """
    found = {kind: int(total_us) for kind, total_us in _LINE.findall(text)}
    if not found or not all(map(possible, found.values())):
        raise CollectError("format", f"no total= in {text[:100]!r}")
    return found


def psi_samples(stall_us: Mapping[tuple[str, str], float]) -> Iterator[Sample]:
    """Samples of the node from microseconds by (resource, kind)."""
    for (resource, kind), total_us in stall_us.items():
        yield Sample(m.NODE_PRESSURE_STALL, (resource, kind), total_us / 1e6)


def job_psi_samples(stall_us: Mapping[tuple[str, str, str], float]) -> Iterator[Sample]:
    """Samples of jobs from microseconds by (job id, resource, kind)."""
    for key, total_us in stall_us.items():
        yield Sample(m.JOB_PRESSURE_STALL, key, total_us / 1e6)


class PsiCollector(Collector):
    """Reads `/proc/pressure` and `*.pressure` of every job.

    A kernel without it (CONFIG_PSI off, psi=0) is no error, nor are control groups of v1. A job's series ends with
    its control group.
    """

    name = "psi"
    reasons = ("format", *READ_REASONS)
    options = (JOBS,)

    def __init__(self, settings: Settings, node: NodeState) -> None:
        super().__init__(settings, node)
        self._stall_us: dict[tuple[str, str], float] = {}
        self._missing: tuple[str, ...] = ()
        self._job_stall_us: dict[tuple[str, str, str], float] = {}
        self._no_jobs: Reason | None = None

    def cycle(self) -> None:
        """Reads three small files of the node, and three of each job."""
        stall_us: dict[tuple[str, str], float] = {}
        missing: list[str] = []
        for resource in RESOURCES:
            text = read_text(self.settings[PROCFS] / "pressure" / resource)
            if text is None:
                missing.append(resource)
                continue
            stall_us.update({(resource, kind): float(total_us) for kind, total_us in parse_pressure(text).items()})
        self._stall_us, self._missing = stall_us, tuple(missing)
        if self.settings[JOBS]:
            self._read_jobs()

    def _read_jobs(self) -> None:
        root = self.settings[CGROUP]
        tree = hierarchy(root)
        absent: Reason | None = None
        if tree == "none":
            absent = "not_found"
        elif tree != "v2" or not self._stall_us:
            absent = "not_supported"
        found: dict[tuple[str, str, str], float] = {}
        for job in job_cgroups(root) if absent is None else ():
            for resource in RESOURCES:
                try:
                    text = read_text(root / job.path / f"{resource}.pressure")
                    # A job that has just ended is no error.
                    totals_us = {} if text is None else parse_pressure(text)
                except CollectError as exc:
                    self.health.count(exc.reason)
                    continue
                found.update({(job.job_id, resource, kind): float(us) for kind, us in totals_us.items()})
        self._job_stall_us, self._no_jobs = found, absent

    def samples(self, fresh: bool, now_s: float) -> Iterable[Sample]:
        """Counters of the last cycle, none when it is stale."""
        if not fresh:
            return
        yield from psi_samples(self._stall_us)
        for resource in self._missing:
            field = f"{m.NODE_PRESSURE_STALL.field}/{resource}"
            yield Sample(m.FIELD_UNAVAILABLE, ("", "", field, "not_supported"), 1.0)
        yield from job_psi_samples(self._job_stall_us)
        if self._no_jobs is not None:
            yield Sample(m.FIELD_UNAVAILABLE, ("", "", m.JOB_PRESSURE_STALL.field, self._no_jobs), 1.0)


COLLECTOR = PsiCollector
