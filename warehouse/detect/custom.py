"""Detectors of a site's own: an alert that it has already becomes evidence, dated from samples as all others are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from warehouse.causes import DETECTOR_SCOPES, detector_faults, load_causes
from warehouse.model.cause import Cause, Detector
from warehouse.model.state import State

_TEXTS = ("expr", "scope", "cause", "state", "why", "severity")
_NUMBERS = ("min_duration_s", "stitch_s", "lost")
_NEEDED = ("expr", "scope", "cause")
_KEY = re.compile(r"[a-z][a-z0-9_]{0,59}")
_SEVERITIES = ("page", "ticket", "info")


def read_custom(said: Mapping[str, Any], faults: list[str]) -> tuple[tuple[str, Detector], ...]:
    """Gives a site's own detectors with the codes of their causes; names every fault."""
    taken = {detector.key for cause in load_causes().values() for detector in cause.detectors}
    found = []
    for key, values in said.items():
        where = f"[custom.{key}]"
        if not _KEY.fullmatch(key) or key in taken:
            faults.append(f"{where}: must be a name of its own in small letters, digits and _")
        elif not isinstance(values, dict):
            faults.append(f"{where} is no section")
        else:
            wrong = _faults(values)
            faults += [f"{where} {fault}" for fault in wrong]
            if not wrong:
                found.append((values["cause"], _detector(key, values, load_causes()[values["cause"]])))
                faults += [f"{where} {fault}" for fault in detector_faults(found[-1][1])]
    return tuple(found)


def _faults(values: Mapping[str, Any]) -> list[str]:
    known = (*_TEXTS, *_NUMBERS)
    faults = [f"{name}: unknown; there are {', '.join(sorted(known))}" for name in values if name not in known]
    faults += [f"{name}: is missing" for name in _NEEDED if name not in values]
    faults += [f"{n}: must be text in quotes" for n in _TEXTS if n in values and not isinstance(values[n], str)]
    for name in _NUMBERS:
        value = values.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            faults.append(f"{name}: {value!r} is no number from 0")
    if faults:
        return faults
    cause = load_causes().get(values["cause"])
    if cause is None:
        faults.append(f"cause: '{values['cause']}' is not in the catalogue (docs/causes.md)")
    elif cause.state is None and "state" not in values:
        faults.append("state: is missing, and the cause has no usual one")
    if values["scope"] not in DETECTOR_SCOPES:
        faults.append(f"scope: must be one of {', '.join(sorted(DETECTOR_SCOPES))}")
    if values.get("state") is not None and values["state"] not in {str(state) for state in State}:
        faults.append(f"state: '{values['state']}' is no state")
    if values.get("severity", "ticket") not in _SEVERITIES:
        faults.append(f"severity: must be one of {', '.join(_SEVERITIES)}")
    if values.get("lost", 0) > 1:
        faults.append("lost: must be from 0 to 1")
    return faults


def _detector(key: str, values: Mapping[str, Any], cause: Cause) -> Detector:
    state = State(values["state"]) if "state" in values else cause.state
    assert state is not None
    return Detector(
        key=key,
        version=1,
        # Nothing of it is a template: a dollar sign is one.
        expr=values["expr"].replace("$", "$$"),
        scope=values["scope"],
        state=state,
        min_duration_ms=round(values.get("min_duration_s", 0) * 1000),
        why=values.get("why", f"The site's own detector {key} says so."),
        stitch_ms=round(values.get("stitch_s", 0) * 1000),
        lost_ppm=round(values["lost"] * 1_000_000) if "lost" in values else None,
        severity=values.get("severity", "ticket"),
    )
