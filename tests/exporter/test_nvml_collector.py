"""What the page says of the GPUs between two answers of the driver, cycle by cycle and without processes."""

from __future__ import annotations

import time
from collections.abc import Iterable

import pytest

from exporter import driver
from exporter import metrics as m
from exporter.child import Child
from exporter.collector import NodeState
from exporter.collectors.nvml import NvmlCollector
from exporter.config import Settings
from exporter.driver import RECYCLE_AFTER, Driver
from exporter.inventory import Inventory
from exporter.readings import GpuReading, Identity, NvmlSnapshot
from tests.exporter.collecting import node, rows
from tests.exporter.jobs import gpu


class StubChild(Child):
    """A driver process that answers every request with the same snapshot."""

    def __init__(self, answer: NvmlSnapshot) -> None:
        self._answer = answer
        self._number = 0
        self.stopped = False

    def send(self, message: object) -> None:
        assert isinstance(message, int)
        self._number = message

    def receive(self, timeout_s: float) -> tuple[int, NvmlSnapshot]:
        return self._number, self._answer

    def resident_bytes(self) -> int:
        return 0

    def stop(self, grace_s: float = 2.0) -> bool:
        self.stopped = True
        return True


def answer(*numbers: int) -> NvmlSnapshot:
    """A snapshot in which these GPUs answer."""
    return NvmlSnapshot(0, "570.1", tuple(GpuReading(gpu(number), None) for number in numbers))


@pytest.mark.parametrize(("known", "anew"), [([0, 1], False), ([0, 1, 2], True)])
def test_a_process_that_does_not_count_a_known_gpu_is_started_anew(
    monkeypatch: pytest.MonkeyPatch, known: list[int], anew: bool
) -> None:
    child = StubChild(answer(0, 1))
    monkeypatch.setattr(driver, "Child", lambda mode, options: child)
    asked = Driver(Settings({RECYCLE_AFTER: 0.0}), lambda: [gpu(number).slot for number in known])
    assert asked.ask() == answer(0, 1)
    assert child.stopped == anew


def test_a_driver_that_refuses_is_no_timeout_while_it_is_asked_anew() -> None:
    collector = NvmlCollector(Settings(), node(gpu(0)))
    collector.health.finished_s = 0.0
    collector._driver.code = 9
    assert {labels[2] for labels in rows(collector, m.GPU_DOWN_REASON, fresh=False)} == {"driver"}
    collector._driver._silent_since_s = time.monotonic()
    assert {labels[2] for labels in rows(collector, m.GPU_DOWN_REASON, fresh=False)} == {"driver"}


def test_a_gpu_that_comes_is_not_down_while_the_inventory_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[tuple[str, ...], float]] = []

    class SlowInventory(Inventory):
        def update(self, found: Iterable[Identity]) -> None:
            super().update(found)
            seen.append(rows(collector, m.GPU_UP))

    collector = NvmlCollector(Settings(), NodeState(SlowInventory()))
    collector.health.finished_s = 0.0
    for numbers in ((0,), (0, 1)):
        monkeypatch.setattr(collector._driver, "ask", lambda numbers=numbers: answer(*numbers))
        collector.cycle()
    assert [set(page.values()) for page in seen] == [set(), {1.0}]
    assert set(rows(collector, m.GPU_UP).values()) == {1.0} and len(rows(collector, m.GPU_UP)) == 2
