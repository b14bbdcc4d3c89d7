"""The exporter in a world that runs 120 times faster: what its command line starts, with every period shortened.

The program is the real one. A day of it, 17,280 driver cycles of 5 s, passes in 12 minutes. Two things stay as they
are, since they are waits for answers and not periods: deadlines, and the beat of the event process.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from exporter import cli, driver
from exporter.collector import Collector
from exporter.runner import Runner

FACTOR = 120
SHORTEST_S = 0.04  # of a period: below, a collector would take more of the processor than it does in a day
DAY_CYCLES = int(86_400 / driver.INTERVAL.default)

OPTIONS = (
    "--collector.nvml.deadline=1",
    f"--collector.nvml.static-interval={driver.STATIC_INTERVAL.default / FACTOR:g}",
    "--collector.nvml.replace-after=1",
    "--collector.nvml.recycle-after=1",
)


class CompressedRunner(Runner):
    """Shortens the periods of its collectors."""

    def __init__(self, collectors: Sequence[Collector], *rest: Any) -> None:
        for collector in collectors:
            collector.period_s = max(SHORTEST_S, collector.period_s / FACTOR)
        super().__init__(collectors, *rest)


def main() -> int:
    """The exporter's command line; the slow cycle is set past it, which refuses less than a second."""
    cli.Runner = CompressedRunner  # type: ignore[attr-defined,assignment]
    object.__setattr__(driver.SLOW_INTERVAL, "default", driver.SLOW_INTERVAL.default / FACTOR)
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
