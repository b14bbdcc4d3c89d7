"""What every route has: the database, the clock, the settings and the counters, as one value."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from fastapi import Request
from sqlalchemy import Engine

from warehouse import clock
from warehouse.alerts.receive import DEFAULT_IGNORED, DEFAULT_SOURCE
from warehouse.api.metrics import Metrics

# Each holds a body and a connection. The others wait before theirs is read, which costs nothing here, and senders wait
# longer than that: deliveries of one source follow one another in the database anyway.
DELIVERIES_AT_A_TIME = 4


@dataclass(frozen=True, slots=True)
class Service:
    """`default_source` names deliveries that name none; `ignored` are labels that do not tell alerts apart."""

    engine: Engine
    metrics: Metrics
    default_source: str = DEFAULT_SOURCE
    ignored: tuple[str, ...] = DEFAULT_IGNORED
    now_ms: Callable[[], int] = clock.now_ms
    deliveries: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(DELIVERIES_AT_A_TIME))


def service_of(request: Request) -> Service:
    """Gives the service that a request came to."""
    service = request.app.state.service
    assert isinstance(service, Service)
    return service
