"""A real survey in a process of its own, over the scripted driver library, with cycles and clock by hand.

For what needs many cycles, or times that nobody waits for.
"""

from __future__ import annotations

import subprocess
import sys
from multiprocessing.connection import Connection, Pipe
from typing import Any

from exporter.readings import GpuReading, NvmlSnapshot
from tests.exporter.cycles import Answer

_SERVE = """
import sys
from multiprocessing.connection import Connection
from exporter.nvml.call import close_driver, open_driver
from exporter.survey import Survey

now_s = 1000.0
open_driver()
pipe = Connection(int(sys.argv[1]))
survey = Survey(30.0, 600.0, lambda: now_s)
while (asked := pipe.recv()) is not None:
    cycles, step_s = asked
    for _ in range(cycles):
        now_s += step_s
        snapshot = survey.cycle()
    pipe.send(snapshot)
survey.close()
close_driver()
pipe.send(None)
"""


class HandSurvey:
    """Runs cycles on demand.

    Args:
        env: environment with the driver library.
    """

    def __init__(self, env: dict[str, str]) -> None:
        ours, theirs = Pipe(duplex=True)
        line = [sys.executable, "-c", _SERVE, str(theirs.fileno())]
        self._process = subprocess.Popen(line, env=env, pass_fds=(theirs.fileno(),))
        theirs.close()
        self._pipe: Connection[Any, Any] = ours

    def cycle(self, count: int = 1, step_s: float = 5.0) -> NvmlSnapshot:
        """Runs cycles `step_s` apart; gives the last snapshot."""
        self._pipe.send((count, step_s))
        assert self._pipe.poll(60)
        found = self._pipe.recv()
        assert isinstance(found, NvmlSnapshot)
        return found

    def gpu(self, index: int = 0, count: int = 1, step_s: float = 5.0) -> GpuReading:
        """Runs cycles; gives what one GPU read in the last."""
        return self.cycle(count, step_s).gpus[index]

    def close(self) -> None:
        """Closes survey and driver in order, and waits for the end."""
        if self._process.poll() is None:
            self._pipe.send(None)
            assert self._pipe.poll(10) and self._pipe.recv() is None
        assert self._process.wait(10) == 0


def values(reading: GpuReading) -> dict[str, float]:
    """Readings of the board by field, and labels where there are some."""
    return Answer(reading).values


def reasons(reading: GpuReading) -> dict[str, str]:
    """Reason by field that is not available."""
    return dict(Answer(reading).reasons)
