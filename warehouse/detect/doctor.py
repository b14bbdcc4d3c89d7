"""Says which detectors are blind on a Prometheus, and which series they lack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from warehouse.detect.needs import needs
from warehouse.detect.render import forms, seconds
from warehouse.detect.words import Settings
from warehouse.evidence.prometheus import PrometheusClient
from warehouse.model.cause import Cause, Detector
from warehouse.model.time import MS_PER_HOUR, Window

# There only while something is wrong, or since it first was: their absence is good news and blinds nobody. Beside each,
# what its exporter shows all the time.
ONLY_DURING_FAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "gpuminutes_gpu_down_reason": "gpuminutes_gpu_up",
        "gpuminutes_gpu_xid_last_timestamp_seconds": "gpuminutes_gpu_xid_events_total",
    }
)

# A day, so that a family that shows only while jobs run is not missed on a quiet morning.
_LOOK_BACK_MS = 24 * MS_PER_HOUR


@dataclass(frozen=True, slots=True)
class Sight:
    """What a detector sees: by whose series, or which names it lacks (of the form that lacks the fewest)."""

    cause: str
    detector: str
    teller: str
    missing: tuple[str, ...] = ()

    @property
    def blind(self) -> bool:
        """Tells whether it sees nothing."""
        return bool(self.missing)


def lacks(expr: str, names: Set[str]) -> tuple[str, ...]:
    """Gives the series that an expression lacks: of the choices that it has, those of the one nearest to hand."""
    wanted = [{ONLY_DURING_FAULTS.get(name, name) for name in needed} for needed in needs(expr)]
    return min((tuple(sorted(needed - names)) for needed in wanted), key=lambda missing: (len(missing), missing))


def sights(
    client: PrometheusClient, settings: Settings, judged: Iterable[tuple[Cause, Detector]], at_ms: int
) -> list[Sight]:
    """Gives what every detector sees of the day before an instant, in order of cause and detector.

    Args:
        client: where the series should be.
        settings: labels, jobs and exporters of the site.
        judged: the detectors that it runs.
        at_ms: end of the day, milliseconds UTC.

    Raises:
        PrometheusError: when Prometheus gives no whole answer.
    """
    names = set(client.names(Window(at_ms - _LOOK_BACK_MS, at_ms)))
    asked: set[str] = set()
    found = []
    for cause, detector in judged:
        if detector.fan_in is not None:
            continue
        options = []
        for form in forms(detector, settings.site, settings.scrape_interval_ms, settings.onset_reach_ms):
            scrapes = {name for needed in needs(form.expr) for name in needed if name.startswith("up{")}
            for up in sorted(scrapes - asked):
                asked.add(up)
                if client.query(f"count(present_over_time({up}[{seconds(_LOOK_BACK_MS)}]))", at_ms):
                    names.add(up)
            options.append(Sight(cause.code, detector.key, form.teller, lacks(form.expr, names)))
        if options:
            found.append(min(options, key=lambda sight: len(sight.missing)))
    return sorted(found, key=lambda sight: (sight.cause, sight.detector))
