"""Says which detectors are blind: the series that they read are not there."""

from __future__ import annotations

import re

from warehouse.causes import load_causes
from warehouse.evidence.prometheus import PrometheusClient

# There only while a GPU is down: their absence is good news and blinds nobody.
ONLY_DURING_FAULTS = frozenset({"gpuminutes_gpu_down_reason"})

# A day, so that a family that shows only while jobs run is not missed on a quiet morning.
_LOOK_BACK = "1d"

_SELECTOR = re.compile(r"\b(up|gpuminutes_\w+|node_\w+)\b(?:\{([^}]*)\})?")
_EQUALS = re.compile(r'\w+="(?:[^"\\]|\\.)*"')


def selectors(expr: str) -> list[str]:
    """Gives the series that an expression reads, each once, narrowed by its equality matchers alone.

    Other matchers choose among series that come and go; equalities name a family that must be there.
    """
    found = set()
    for name, matchers in _SELECTOR.findall(expr):
        equal = ",".join(_EQUALS.findall(matchers))
        found.add(f"{name}{{{equal}}}" if equal else name)
    return sorted(found)


def blind_detectors(client: PrometheusClient, at_ms: int | None = None) -> list[tuple[str, str]]:
    """Gives (cause code, missing series) for every detector that lacks something, in order.

    Args:
        client: where the series should be.
        at_ms: end of the day that is searched, milliseconds UTC; None means the server's present.

    Raises:
        PrometheusError: when Prometheus gives no whole answer.
    """
    present: dict[str, bool] = {}
    blind = set()
    for code, cause in load_causes().items():
        for detector in cause.detectors:
            for selector in selectors(detector.expr):
                if selector in ONLY_DURING_FAULTS:
                    continue
                if selector not in present:
                    expr = f"count(present_over_time({selector}[{_LOOK_BACK}]))"
                    present[selector] = bool(client.query(expr, at_ms))
                if not present[selector]:
                    blind.add((code, selector))
    return sorted(blind)
