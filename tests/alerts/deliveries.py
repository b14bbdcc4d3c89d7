"""Bodies as Alertmanager and Grafana send them, and a service on a real database that they are sent to in-process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
from sqlalchemy import Engine, create_engine, text

from warehouse.api.app import create_app
from warehouse.api.metrics import Metrics
from warehouse.api.service import Service
from warehouse.model.time import format_instant, parse_instant
from warehouse.store import connect, migrate, tokens

START = parse_instant("2026-10-01T12:00:00Z")
MINUTE = 60_000
ZERO = "0001-01-01T00:00:00Z"


def at(minutes: float) -> int:
    """Gives the millisecond so many minutes after the start."""
    return START + round(minutes * MINUTE)


def when(minutes: float) -> str:
    return format_instant(at(minutes))


def alert(name: str = "GpuDown", start: float = 0, end: float | None = None, **labels: str) -> dict[str, Any]:
    """One alert of Alertmanager's version 4; times in minutes after the start, `end` None: firing."""
    return {
        "status": "firing" if end is None else "resolved",
        "labels": {"alertname": name, **labels},
        "annotations": {"summary": f"{name} on {labels.get('node', 'a node')}"},
        "startsAt": when(start),
        "endsAt": ZERO if end is None else when(end),
        "generatorURL": "http://prometheus.example:9090/graph?g0.expr=up+%3D%3D+0",
        "fingerprint": "c6eadffa33fcdf37",
    }


def payload(*alerts: object, **more: object) -> bytes:
    """A delivery of Alertmanager 0.25."""
    document = {
        "version": "4",
        "groupKey": '{}:{alertname="GpuDown"}',
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": "gpu-minutes",
        "groupLabels": {"alertname": "GpuDown"},
        "commonLabels": {},
        "commonAnnotations": {},
        "externalURL": "http://alertmanager.example:9093",
        "alerts": list(alerts),
    }
    return json.dumps(document | more).encode()


def grafana_alert(start: str, end: str | None = None, **labels: str) -> dict[str, Any]:
    """One alert of Grafana: times with an offset and microseconds, links and values beside what Alertmanager has."""
    return {
        "status": "firing" if end is None else "resolved",
        "labels": {"alertname": "GPU power low", "grafana_folder": "GPU", **labels},
        "annotations": {"summary": "power is below its floor"},
        "startsAt": start,
        "endsAt": ZERO if end is None else end,
        "generatorURL": "https://grafana.example/alerting/grafana/a1/view?orgId=1",
        "fingerprint": "57c6d9296de2ad39",
        "silenceURL": "https://grafana.example/alerting/silence/new?alertmanager=grafana",
        "dashboardURL": "",
        "panelURL": "",
        "values": {"B": 44.23943737541908, "C": 1},
        "valueString": "[ var='B' labels={} value=44.23943737541908 ]",
        "orgId": 1,
    }


def grafana_payload(*alerts: object) -> bytes:
    document = {
        "receiver": "GPU Minutes",
        "status": "firing",
        "alerts": list(alerts),
        "groupLabels": {"alertname": "GPU power low"},
        "commonLabels": {},
        "commonAnnotations": {},
        "externalURL": "https://grafana.example/",
        "version": "1",
        "groupKey": "{}:{}",
        "truncatedAlerts": 0,
        "orgId": 1,
        "title": "[FIRING:1] GPU power low",
        "state": "alerting",
        "message": "**Firing**",
    }
    return json.dumps(document).encode()


@dataclass
class Clock:
    """A clock that stands until it is set."""

    now: int = START

    def __call__(self) -> int:
        return self.now


@dataclass
class Api:
    """The service, asked inside this process; answers come as from a socket, and an exception would be raised here."""

    engine: Engine
    clock: Clock = field(default_factory=Clock)
    secret: str = ""

    def __post_init__(self) -> None:
        with self.engine.begin() as connection:
            self.secret = tokens.create(connection, "test", "tester", self.clock.now)
        service = Service(self.engine, Metrics(self.engine), now_ms=self.clock)
        self.app = create_app(service)

    def client(self) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self.app)
        return httpx.AsyncClient(transport=transport, base_url="http://api", headers=self.bearer())

    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.secret}"}

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        async def once() -> httpx.Response:
            async with self.client() as client:
                return await client.request(method, path, **more)

        return asyncio.run(once())

    def post(
        self,
        body: bytes,
        minutes: float | None = None,
        source: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Delivers a body; `minutes`: sets the clock to so many after the start before."""
        if minutes is not None:
            self.clock.now = at(minutes)
        params = {} if source is None else {"source": source}
        return self.ask("POST", "/v1/alertmanager", content=body, params=params, headers=headers)

    def sql(self, statement: str, **values: object) -> list[Any]:
        with self.engine.connect() as connection:
            return list(connection.execute(text(statement), values).all())

    def count(self, table: str) -> int:
        return int(self.sql(f"select count(*) from {table}")[0][0])

    def episodes(self) -> list[tuple[str, float, float | None, str]]:
        """Episodes as (node or alert, begin, end, state), in minutes after the start."""
        rows = self.sql(
            "select coalesce(labels ->> 'node', labels ->> 'alertname') as who, ms_of(starts_at) as s, "
            "ms_of(ends_at) as e, state from alert_episode order by who, starts_at"
        )
        return [(r.who, (r.s - START) / MINUTE, None if r.e is None else (r.e - START) / MINUTE, r.state) for r in rows]


def open_api(url: str) -> Api:
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    migrate.upgrade(engine)
    pooled = connect.pooled(engine, 8)
    engine.dispose()
    return Api(pooled)
