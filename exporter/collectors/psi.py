"""Pressure stall information: how long tasks of the node waited for CPU, memory and I/O.

Only `total=`, in microseconds, is read; the averages are for people
(kernel Documentation/accounting/psi.rst).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from exporter import metrics as m
from exporter.collector import Collector, NodeState
from exporter.config import PROCFS, Settings
from exporter.errors import CollectError
from exporter.readings import Sample

RESOURCES = ("cpu", "io", "memory")
_LINE = re.compile(r"(some|full) .*\btotal=(\d+)")


def psi_samples(stall_us: Mapping[tuple[str, str], float]) -> Iterator[Sample]:
    """Samples from microseconds by (resource, kind)."""
    for (resource, kind), total_us in stall_us.items():
        yield Sample(m.NODE_PRESSURE_STALL, (resource, kind), total_us / 1e6)


class PsiCollector(Collector):
    """Reads `/proc/pressure`; a kernel without it (CONFIG_PSI off, psi=0) is not an error."""

    name = "psi"
    reasons = ("format",)

    def __init__(self, settings: Settings, node: NodeState) -> None:
        super().__init__(settings, node)
        self.period_s = 1.0
        self._stall_us: dict[tuple[str, str], float] = {}
        self._missing: tuple[str, ...] = ()

    def cycle(self) -> None:
        """Reads three small files."""
        stall_us: dict[tuple[str, str], float] = {}
        missing: list[str] = []
        for resource in RESOURCES:
            try:
                text = (self.settings[PROCFS] / "pressure" / resource).read_text(encoding="ascii")
            except (OSError, UnicodeDecodeError):
                # ENOENT without CONFIG_PSI, EOPNOTSUPP with psi=0
                missing.append(resource)
                continue
            found = _LINE.findall(text)
            if not found:
                raise CollectError("format", f"no total= in pressure/{resource}")
            stall_us.update({(resource, kind): float(total_us) for kind, total_us in found})
        self._stall_us, self._missing = stall_us, tuple(missing)

    def samples(self, fresh: bool, now_s: float) -> Iterable[Sample]:
        """Counters of the last cycle, none when it is stale."""
        if not fresh:
            return
        yield from psi_samples(self._stall_us)
        for resource in self._missing:
            field = f"{m.NODE_PRESSURE_STALL.field}/{resource}"
            yield Sample(m.FIELD_UNAVAILABLE, ("", "", field, "not_supported"), 1.0)


COLLECTOR = PsiCollector
