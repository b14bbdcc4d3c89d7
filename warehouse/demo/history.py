"""Five days of a simulated fleet, as a scheduler, a monitor and a facility desk would have written them down."""

from __future__ import annotations

import random

from warehouse.demo.lanes import batch, finetune, hall_power, pretrain, serving
from warehouse.demo.record import Record
from warehouse.model.time import MS_PER_DAY, Window

HISTORY_DAYS = 5


def history_window(now_ms: int) -> Window:
    """Gives the days of history that end at the last whole minute."""
    end_ms = now_ms // 60_000 * 60_000
    return Window(end_ms - HISTORY_DAYS * MS_PER_DAY, end_ms)


def make_history(rng: random.Random, window: Window) -> Record:
    """Gives what happened in the window; what still runs at its end has no end.

    Laws: the same seed and window give the same rows; every instant of every GPU is spoken of, but for one hole of
    the monitoring.

    Args:
        rng: seeded; everything that looks random follows from it.
        window: five days; the events have their hours in it.
    """
    record = Record()
    power = hall_power(record, rng, window)
    pretrain(record, rng, window, power)
    finetune(record, rng, window)
    batch(record, rng, window)
    serving(record, rng, window, power)
    return record
