"""What the worker says about itself, for Prometheus: how far it has read, what failed, what it could not use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from warehouse.evidence.prometheus import PrometheusClient
from warehouse.model.time import MS_PER_SECOND
from warehouse.worker import LATENESS_MS, Step

DATABASE: Final = "database"
_PREFIX: Final = "gpuminutes_worker_"


_GAUGES: Final = {
    "read_until_timestamp_seconds": "How far the signals have been read.",
    "complete_until_timestamp_seconds": "How far late samples have been waited for as well.",
    "look_duration_seconds": "How long the last look took, booking included.",
    "unusable_findings": "What the last look found and could not use, such as a GPU without a place in the fleet.",
}


class WorkerMetrics:
    """The worker's own page. What it has not done yet is absent, never 0."""

    def __init__(self, client: PrometheusClient) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._client = client
        self._gauges: dict[str, float] = {}
        self._blind: dict[str, bool] = {}
        self._looks = self._counter(
            "looks",
            "Looks that were stored: of every detector for the first time, once more, or of the urgent ones.",
            "kind",
        )
        self._failures = self._counter("failures", "Looks that failed and will be made again, by reason.", "reason")
        self._evidence = self._counter("evidence", "Evidence told: new, gone on or ended, as before.", "what")
        self._woken = self._counter("woken", "Looks made at once because an alert came in.")
        self.registry.register(self)

    def looked(self, step: Step, seconds: float, kind: str) -> None:
        """Notes a look that was stored."""
        self._looks.labels(kind).inc()
        self._gauges |= {"look_duration_seconds": seconds, "unusable_findings": len(step.findings)}
        intake = step.done.intake
        self._evidence.labels("new").inc(len(intake.evidence) - len(intake.superseded))
        self._evidence.labels("went_on").inc(len(intake.superseded))
        self._evidence.labels("as_before").inc(intake.repeated)
        if kind != "urgent":  # that asks some detectors alone
            self._blind = {key: key in step.blind for key in self._blind.keys() | step.blind}

    def reached(self, read_ms: int) -> None:
        """Notes how far the signals have been read."""
        self._gauges["read_until_timestamp_seconds"] = read_ms / MS_PER_SECOND
        self._gauges["complete_until_timestamp_seconds"] = (read_ms - LATENESS_MS) / MS_PER_SECOND

    def failed(self, reason: str) -> None:
        """Notes a look that failed."""
        self._failures.labels(reason).inc()

    def woken(self) -> None:
        """Notes that an alert came in."""
        self._woken.inc()

    def collect(self) -> Iterator[Metric]:
        """Gives the gauges that have a value, and what the client of Prometheus has counted by now."""
        for name, text in _GAUGES.items():
            if name in self._gauges:
                yield GaugeMetricFamily(_PREFIX + name, text, value=self._gauges[name])
        blind = GaugeMetricFamily(
            _PREFIX + "detector_blind", "1 where the last look found no series of a detector.", labels=("detector",)
        )
        for key in sorted(self._blind):
            blind.add_metric((key,), int(self._blind[key]))
        yield blind
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

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(_PREFIX + name, text, labels, registry=self.registry)


def _total(name: str, text: str, value: float) -> Metric:
    family = CounterMetricFamily(_PREFIX + name, text)
    family.add_metric((), value)
    return family
