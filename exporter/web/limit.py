"""A token bucket for `rate_limit`."""

from __future__ import annotations

import threading

from exporter.web.config import Rate


class Bucket:
    """Holds `burst` tokens at most and gets one each interval.

    Args:
        rate: how fast it fills, None for no limit.
    """

    def __init__(self, rate: Rate | None) -> None:
        self.rate = rate
        self._tokens = float(rate.burst) if rate else 0.0
        self._filled_s: float | None = None
        self._lock = threading.Lock()

    def take(self, now_s: float) -> bool:
        """Takes one token; False if there is none. `now_s` is monotonic."""
        if self.rate is None:
            return True
        with self._lock:
            since_s = 0.0 if self._filled_s is None else max(0.0, now_s - self._filled_s)
            self._filled_s = now_s
            self._tokens = min(float(self.rate.burst), self._tokens + since_s / self.rate.interval_s)
            if self._tokens < 1.0:
                return False
            self._tokens -= 1.0
            return True
