"""Says which detectors are blind on a Prometheus, and which series they lack."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from warehouse.causes import load_causes
from warehouse.detect.render import USE, forms, seconds
from warehouse.detect.words import Settings
from warehouse.evidence.prometheus import PrometheusClient
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


def needed(expr: str) -> frozenset[str]:
    """Gives the series names without which an expression can never be true; of `up`, with the job that is asked.

    What stands behind `unless` or in brackets with an `or` only takes away or stands in; such expressions need one
    name alone, their first.
    """
    found = [_name(match) for match in USE.finditer(expr)]
    if " or " in expr or " unless " in expr or "__name__=~" in expr:
        found = found[:1]
    return frozenset(ONLY_DURING_FAULTS.get(name, name) for name in found)


def _name(match: re.Match[str]) -> str:
    name = match["inner"] or match["bare"]
    job = re.search(r'\bjob=~?"[^"]*"', match["asked"] or match["matchers"] or "")
    return f"up{{{job[0]}}}" if name == "up" and job else name


def sights(client: PrometheusClient, settings: Settings, at_ms: int) -> list[Sight]:
    """Gives what every detector sees of the day before an instant, in order of cause and detector.

    Raises:
        PrometheusError: when Prometheus gives no whole answer.
    """
    names = set(client.names(Window(at_ms - _LOOK_BACK_MS, at_ms)))
    asked: set[str] = set()
    found = []
    for code, cause in load_causes().items():
        for detector in cause.detectors:
            if not settings.site.enabled(detector) or detector.fan_in is not None:
                continue
            options = []
            for form in forms(detector, settings.site, settings.scrape_interval_ms, settings.onset_reach_ms):
                wanted = needed(form.expr)
                for up in sorted(name for name in wanted - asked if name.startswith("up{")):
                    asked.add(up)
                    if client.query(f"count(present_over_time({up}[{seconds(_LOOK_BACK_MS)}]))", at_ms):
                        names.add(up)
                options.append(Sight(code, detector.key, form.teller, tuple(sorted(wanted - names))))
            found.append(min(options, key=lambda sight: len(sight.missing)))
    return sorted(found, key=lambda sight: (sight.cause, sight.detector))
