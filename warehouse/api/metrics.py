"""The service's own metrics: counters of what came, and gauges that are read from the database when asked."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from warehouse.errors import one_line
from warehouse.model.time import MS_PER_SECOND
from warehouse.store import alerts, inbox

_LOG = logging.getLogger(__name__)

# Alertmanager gives up on a delivery after its group interval; ten seconds are long for what answers in some ten ms.
_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Counters and gauges in a registry of their own, so that two services in one process do not share them."""

    def __init__(self, engine: Engine) -> None:
        self._registry = CollectorRegistry()
        self.deliveries = Counter(
            "gpuminutes_api_deliveries",
            "Deliveries of alerts, by what became of them: stored, repeat, malformed, refused, too_large, failed.",
            ["source", "result"],
            registry=self._registry,
        )
        self.alerts = Counter(
            "gpuminutes_api_alerts",
            "Alerts in deliveries: used, or refused and kept as dead letters.",
            ["source", "result"],
            registry=self._registry,
        )
        self.unauthorized = Counter(
            "gpuminutes_api_unauthorized", "Requests without a valid token.", registry=self._registry
        )
        self.seconds = Histogram(
            "gpuminutes_api_delivery_seconds",
            "Time from a delivery's last byte to its answer.",
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._registry.register(_Stored(engine))

    def page(self) -> bytes:
        """Gives the page in the Prometheus text format."""
        return generate_latest(self._registry)


class _Stored:
    """Gauges of what is stored; without the database they are absent, and only that it is gone is said."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def describe(self) -> list[Metric]:
        """Gives nothing: what there is to tell is known when asked."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yields the gauges."""
        try:
            with self._engine.connect() as connection:
                heartbeats = alerts.heartbeats(connection)
                waiting = alerts.waiting(connection)
                letters = inbox.dead_letters(connection)
        except SQLAlchemyError as exc:
            _LOG.warning("metrics without the database: %s", one_line(str(getattr(exc, "orig", None) or exc)))
            yield GaugeMetricFamily("gpuminutes_api_database_up", "Whether the database answers.", value=0)
            return
        yield GaugeMetricFamily("gpuminutes_api_database_up", "Whether the database answers.", value=1)
        seen = GaugeMetricFamily(
            "gpuminutes_alert_heartbeat_timestamp_seconds",
            "When the always-firing alert GpuMinutesHeartbeat was last said to fire.",
            labels=["source"],
        )
        for source, at_ms in sorted(heartbeats.items()):
            seen.add_metric([source], at_ms / MS_PER_SECOND)
        yield seen
        episodes = GaugeMetricFamily(
            "gpuminutes_alert_episodes",
            "Episodes of alerts that are open, and those that changed since they were last dealt with.",
            labels=["source", "state"],
        )
        for (source, state), count in sorted(waiting.items()):
            episodes.add_metric([source, state], count)
        yield episodes
        dead = GaugeMetricFamily(
            "gpuminutes_alert_dead_letters", "Bodies and alerts that could not be used.", labels=["source"]
        )
        for source, count in sorted(letters.items()):
            dead.add_metric([source], count)
        yield dead
