"""`python -m tests.exporter.many_cycles`: surveys of the GPUs in this process, and what they leave behind in it.

The clock is driven by hand, so that every cycle is 5 s after the last, as by default: 10,000 cycles are 14 hours.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path

from exporter.nvml.call import open_driver
from exporter.survey import Survey
from tests.exporter.fake_nvml import script
from tests.exporter.fake_nvml.script import FakeDriver

CYCLES = 10_000
WARM_UP = 1_000


def main() -> None:
    """Prints how many objects the cycles after the warm-up have left, and in how many of them a GPU was down."""
    driver = FakeDriver(Path(os.environ["FAKE_NVML_STATE"]), gpus=2)
    open_driver()
    now_s = 0.0
    survey = Survey(30.0, 600.0, lambda: now_s)
    down = before = 0
    for number in range(1, CYCLES + 1):
        now_s = number * 5.0
        driver.gpu(0).power_mw = 100_000 + number
        driver.gpu(0).energy_mj += number
        driver.gpu(1).every_return = script.GPU_IS_LOST if number % 10 == 5 else 0
        snapshot = survey.cycle()
        down += sum(gpu.down is not None for gpu in snapshot.gpus)
        if number == WARM_UP:
            del snapshot
            gc.collect()
            before = sys.getallocatedblocks()
    gc.collect()
    left = sys.getallocatedblocks() - before
    asked = driver.gpu(0).calls[script.FUNCTIONS.index("utilization")]
    sys.stdout.write(json.dumps({"left": left, "down": down, "asked": asked}) + "\n")


if __name__ == "__main__":
    main()
