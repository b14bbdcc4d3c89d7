"""What the worker says about itself, for Prometheus: how far it has read, what failed, what it could not use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric

from warehouse.evidence.prometheus import PrometheusClient
from warehouse.model.time import MS_PER_SECOND
from warehouse.worker import LATENESS_MS, Step

DATABASE: Final = "database"
_PREFIX: Final = "gpuminutes_worker_"


class WorkerMetrics:
    """The worker's own page. What it has not done yet is absent, never 0."""

    def __init__(self, client: PrometheusClient) -> None:
        self.registry = CollectorRegistry()
        self._read = self._gauge("read_until_timestamp_seconds", "How far the signals have been read.")
        self._complete = self._gauge(
            "complete_until_timestamp_seconds",
            "Up to here late samples have been waited for: nothing more is expected before it.",
        )
        self._took = self._gauge("look_duration_seconds", "How long the last look took, booking included.")
        self._unusable = self._gauge("unusable_findings", "Findings of the last look that could not be used.")
        self._blind = self._gauge("detector_blind", "1 where the last look found no series of a detector.", "detector")
        self._looks = self._counter(
            "looks", "Looks that were stored, by whether the time was looked at before.", "kind"
        )
        self._failures = self._counter("failures", "Looks that failed and will be made again, by reason.", "reason")
        self._evidence = self._counter("evidence", "Evidence told: new, gone on or ended, as before.", "what")
        self._woken = self._counter("woken", "Looks made at once because an alert came in.")
        self.registry.register(_Asked(client))
        self._known_blind: set[str] = set()

    def looked(self, step: Step, seconds: float, kind: str) -> None:
        """Notes a look that was stored."""
        self._looks.labels(kind).inc()
        self._took.set(seconds)
        self._unusable.set(len(step.findings))
        intake = step.done.intake
        self._evidence.labels("new").inc(len(intake.evidence) - len(intake.superseded))
        self._evidence.labels("went_on").inc(len(intake.superseded))
        self._evidence.labels("as_before").inc(intake.repeated)
        for detector in self._known_blind | step.blind:
            self._blind.labels(detector).set(int(detector in step.blind))
        self._known_blind |= step.blind

    def reached(self, read_ms: int) -> None:
        """Notes how far the signals have been read."""
        self._read.set(read_ms / MS_PER_SECOND)
        self._complete.set((read_ms - LATENESS_MS) / MS_PER_SECOND)

    def failed(self, reason: str) -> None:
        """Notes a look that failed."""
        self._failures.labels(reason).inc()

    def woken(self) -> None:
        """Notes that an alert came in."""
        self._woken.inc()

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(_PREFIX + name, text, labels, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(_PREFIX + name, text, labels, registry=self.registry)


class _Asked:
    """What the client of Prometheus counted, read when the page is asked for."""

    def __init__(self, client: PrometheusClient) -> None:
        self._client = client

    def collect(self) -> Iterator[Metric]:
        """Gives the counts as families."""
        asked = self._client.traffic()
        yield _total("prometheus_requests", "Requests sent to Prometheus.", asked.requests)
        yield _total("prometheus_retries", "Requests that repeat one that failed.", asked.retries)
        yield _total("prometheus_splits", "Questions that were halved, being too large or too slow.", asked.splits)
        yield _total("prometheus_seconds", "Seconds spent on asking, pauses included.", asked.spent_s)
        failures = CounterMetricFamily(
            _PREFIX + "prometheus_failures", "Requests without a whole answer, by kind.", labels=("kind",)
        )
        for kind, number in asked.failures.items():
            failures.add_metric((str(kind),), number)
        yield failures


def _total(name: str, text: str, value: float) -> Metric:
    family = CounterMetricFamily(_PREFIX + name, text)
    family.add_metric((), value)
    return family
