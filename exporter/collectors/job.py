"""Who holds which GPU, joined from every source in `exporter.allocations`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import cast

from exporter import allocations
from exporter.allocation import Allocations
from exporter.allocations.slurm import NUMBERS
from exporter.collector import Collector, NodeState
from exporter.config import Settings
from exporter.errors import CollectError, Reason
from exporter.gpus import allocation_samples
from exporter.readings import Identity, Sample
from exporter.verdict import Gpus, Numbering, Verdict, judge

_SOURCES = allocations.discover()
_log = logging.getLogger(__name__)


class JobCollector(Collector):
    """Asks each source in turn; one that fails leaves the GPUs unknown that only it could know."""

    name = "job"
    reasons = tuple(
        sorted({r for source in _SOURCES.values() for r in source.reasons} | {"too_many", "unknown_device"})
    )
    options = tuple(option for source in _SOURCES.values() for option in source.options)

    def __init__(self, settings: Settings, node: NodeState) -> None:
        super().__init__(settings, node)
        self._sources = [source(settings) for source in _SOURCES.values()]
        self._numbering = cast(Numbering, settings[NUMBERS])
        self._by_allocation: tuple[Allocations, ...] = ()
        self._by_process: tuple[Allocations, ...] = ()
        self._board_by_mig: dict[str, str] = {}
        self._stale: Reason = "no_data"
        self._failing: set[str] = set()

    def cycle(self) -> None:
        """Reads every source; fails if one could not be read and none that sees allocations was."""
        by_allocation: list[Allocations] = []
        by_process: list[Allocations] = []
        failures: list[CollectError] = []
        succeeded = False
        for source in self._sources:
            try:
                said = source.read(self.node)
            except CollectError as exc:
                failures.append(exc)
                said = Allocations(rest=exc.reason)
                self._tell(source.name, str(exc))
            else:
                self._failing.discard(source.name)
                succeeded = succeeded or (said is not None and not source.by_process)
            if said is not None:
                (by_process if source.by_process else by_allocation).append(said)
        self._by_allocation, self._by_process = tuple(by_allocation), tuple(by_process)
        self._board_by_mig = self._boards()
        _, dropped = self._judge(self.node.inventory.gpus)
        for reason in (*(reason for said in (*by_allocation, *by_process) for reason in said.dropped), *dropped):
            self.health.count(reason)
        self._stale = "timeout"  # what it is if the next cycle does not end
        if failures and not succeeded:
            self._stale = failures[0].reason
            raise failures[0]
        for failure in failures:
            self.health.count(failure.reason)

    def samples(self, fresh: bool, now_s: float) -> Iterable[Sample]:
        """What is known of every GPU that the node should have, whether it answers or not."""
        gpus = self.node.inventory.gpus
        verdicts = self._judge(gpus)[0] if fresh else {gpu.uuid: Verdict(None, reason=self._stale) for gpu in gpus}
        return allocation_samples(gpus, verdicts)

    def _judge(self, gpus: Sequence[Identity]) -> tuple[dict[str, Verdict], tuple[Reason, ...]]:
        return judge(Gpus(gpus, self._boards(), self._numbering), self._by_allocation, self._by_process)

    def _boards(self) -> dict[str, str]:
        """UUID of the board by that of its MIG device; a board that does not answer keeps those it had."""
        answered = {reading.identity.uuid: reading for reading in self.node.readings if reading.down is None}
        kept = {mig: board for mig, board in self._board_by_mig.items() if board not in answered}
        return kept | {instance.uuid: board for board, r in answered.items() for instance in r.instances}

    def _tell(self, source: str, message: str) -> None:
        """Logs a failure when it begins, not each time it is met again."""
        level = logging.DEBUG if source in self._failing else logging.WARNING
        self._failing.add(source)
        _log.log(level, "allocations, %s: %s", source, message)


COLLECTOR = JobCollector
