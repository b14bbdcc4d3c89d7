"""Who this node is: host name, boot id, kernel, driver."""

from __future__ import annotations

from collections.abc import Iterable

from exporter import metrics as m
from exporter.collector import Collector, NodeState
from exporter.config import PROCFS, Settings
from exporter.errors import CollectError
from exporter.readings import Sample

_FILES = ("hostname", "random/boot_id", "osrelease")


class HostCollector(Collector):
    """Reads `/proc/sys/kernel`; the driver version comes from the nvml collector."""

    name = "host"
    reasons = ("not_found",)

    def __init__(self, settings: Settings, node: NodeState) -> None:
        super().__init__(settings, node)
        self._facts: tuple[str, ...] = ()

    def cycle(self) -> None:
        """Reads three one-line files."""
        folder = self.settings[PROCFS] / "sys" / "kernel"
        try:
            self._facts = tuple(
                (folder / name).read_text(encoding="utf-8", errors="replace").strip() for name in _FILES
            )
        except OSError as exc:
            raise CollectError("not_found", str(exc)) from exc

    def samples(self, fresh: bool, now_s: float) -> Iterable[Sample]:
        """One line, none when stale."""
        if fresh:
            yield Sample(m.NODE_INFO, (*self._facts, self.node.driver), 1.0)


COLLECTOR = HostCollector
