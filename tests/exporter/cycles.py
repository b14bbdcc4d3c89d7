"""Asks the real driver process for one cycle after another, without the exporter around it: for tests of readings."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from types import TracebackType

from exporter.child import Child
from exporter.family import PREFIX
from exporter.readings import GpuReading, NvmlSnapshot

_DEADLINE_S = 20.0


class Cycles:
    """A driver process in which every cycle is a slow one.

    Args:
        env: where it finds the scripted driver, as `harness.environment` makes it.
        options: further options of the worker.
    """

    def __init__(self, env: Mapping[str, str], *options: str) -> None:
        names = ("LD_LIBRARY_PATH", "FAKE_NVML_STATE")
        kept = {name: os.environ.get(name) for name in names}
        os.environ.update({name: env[name] for name in names})  # a child takes its environment from its parent
        try:
            self._child = Child("snapshots", ("--slow-interval=0", *options))
        finally:
            for name, value in kept.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
        self._numbers = itertools.count(1)

    def __enter__(self) -> Cycles:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._child.stop()

    def snapshot(self) -> NvmlSnapshot:
        """The next cycle."""
        self._child.send(next(self._numbers))
        while True:
            message = self._child.receive(_DEADLINE_S)
            assert message is not None, "the driver process does not answer"
            if isinstance(message, tuple) and isinstance(message[-1], NvmlSnapshot):
                return message[-1]

    def gpu(self, index: int = 0) -> Answer:
        """What one GPU says in the next cycle."""
        return Answer(self.snapshot().gpus[index])


class Answer:
    """One GPU in one cycle; names are without the prefix."""

    def __init__(self, reading: GpuReading) -> None:
        self.reading = reading
        self.values = {
            "/".join((value.family.removeprefix(PREFIX), *value.labels)): value.value for value in reading.values
        }
        self.reasons = dict(reading.unavailable)

    def family(self, name: str) -> dict[str, float]:
        """Values of a family by its labels after uuid and slot."""
        return {"/".join(value.labels): value.value for value in self.reading.values if value.family == PREFIX + name}
