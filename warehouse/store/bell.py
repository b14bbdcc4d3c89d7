"""Waits for somebody to ring: whoever takes an alert in notifies the worker, which then looks at once."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any, Self

import psycopg
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

CHANNEL = "gpu_minutes_alerts"

# How soon a signal that ends the worker is noticed, in seconds.
_SLICE_S = 1.0


class Bell:
    """Listens on a connection of its own, so that what rings while the worker looks is not missed.

    Without the database nothing rings, and the wait is a plain one.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def wait(self, seconds: float, ended: threading.Event) -> bool:
        """Waits until it rings, the time is over or the worker is to end; tells whether it rang."""
        deadline_s = time.monotonic() + seconds
        while not ended.is_set() and (left_s := deadline_s - time.monotonic()) > 0:
            if self._rang(min(left_s, _SLICE_S), ended):
                return True
        return False

    def _rang(self, seconds: float, ended: threading.Event) -> bool:
        try:
            if self._connection is None:
                self._connection = self._listening()
            return any(True for _ in self._connection.notifies(timeout=seconds, stop_after=1))
        except (psycopg.Error, SQLAlchemyError):
            self._close()
            ended.wait(seconds)
            return False

    def _listening(self) -> Any:
        raw = self._engine.raw_connection()
        connection = raw.driver_connection
        raw.detach()
        assert connection is not None
        connection.autocommit = True
        connection.execute(f"listen {CHANNEL}")
        return connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
