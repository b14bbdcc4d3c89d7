"""The one place that asks what time it is; everything else takes time as an argument."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Gives the current time in UTC milliseconds."""
    return time.time_ns() // 1_000_000
