"""Reads a site's file (TOML): every fault is named, each with what would be right."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from warehouse.causes import load_causes
from warehouse.detect.custom import read_custom
from warehouse.detect.site import ENDPOINT, JOBS, LABELS, Site, Tuning
from warehouse.errors import BadInput
from warehouse.model.cause import Detector

_SECTIONS = ("custom", "detectors", "endpoints", "exporters", "jobs", "labels")
_OWN = ("enabled", "min_duration_s")


def read_site(path: Path | None) -> Site:
    """Gives what a site's file says; without one, the defaults.

    Raises:
        BadInput: a line a fault, with the file, the key, the reason and what is allowed there.
    """
    if path is None:
        return Site()
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as exc:
        raise BadInput(f"{path}: cannot be read: {getattr(exc, 'strerror', None) or exc}") from exc
    except tomllib.TOMLDecodeError as exc:
        raise BadInput(f"{path}: is no TOML: {exc}") from exc
    faults: list[str] = []
    site = _site(said, faults)
    if faults:
        raise BadInput(*(f"{path}: {fault}" for fault in faults))
    return site


def _site(said: Mapping[str, Any], faults: list[str]) -> Site:
    for name in sorted(said.keys() - set(_SECTIONS)):
        faults.append(f"unknown section [{name}]; there are {_listed(_SECTIONS)}")
    labels = _table(said, "labels", faults)
    endpoint = labels.pop("endpoint", list(ENDPOINT))
    exporters = _lists("", {"exporters": said["exporters"]}, ("exporters",), faults) if "exporters" in said else {}
    for name in set(exporters.get("exporters", ())) - set(Site().exporters):
        faults.append(f"exporters: '{name}' is unknown; there are {_listed(Site().exporters)}")
    return Site(
        exporters=exporters.get("exporters", Site().exporters),
        labels={**LABELS, **_lists("labels", labels, LABELS.keys(), faults)},
        jobs={**JOBS, **_lists("jobs", _table(said, "jobs", faults), JOBS.keys(), faults)},
        endpoint=_lists("labels", {"endpoint": endpoint}, ("endpoint",), faults).get("endpoint", ENDPOINT),
        scopes=_texts("endpoints", _table(said, "endpoints", faults), faults),
        tuning=_tuning(_table(said, "detectors", faults), faults),
        custom=read_custom(_table(said, "custom", faults), faults),
    )


def _table(said: Mapping[str, Any], name: str, faults: list[str]) -> dict[str, Any]:
    found = said.get(name, {})
    if isinstance(found, dict):
        return dict(found)
    faults.append(f"{name} is no section; write [{name}]")
    return {}


def _lists(section: str, said: Mapping[str, Any], known: Any, faults: list[str]) -> dict[str, tuple[str, ...]]:
    found = {}
    for key, value in said.items():
        if key not in known:
            faults.append(f"[{section}] {key}: unknown; there are {_listed(known)}")
        elif not (isinstance(value, list) and value and all(isinstance(part, str) and part for part in value)):
            where = f"[{section}] " if section else ""
            faults.append(f"{where}{key}: must be a list of names, such as ['a', 'b']")
        else:
            found[key] = tuple(value)
    return found


def _texts(section: str, said: Mapping[str, Any], faults: list[str]) -> dict[str, str]:
    for key, value in said.items():
        if not isinstance(value, str):
            faults.append(
                f"{f'[{section}] ' * bool(section)}{key}: must be a scope in quotes, such as 'node7/0+node7/1'"
            )
    return {key: value for key, value in said.items() if isinstance(value, str)}


def _tuning(said: Mapping[str, Any], faults: list[str]) -> dict[str, Tuning]:
    detectors = {d.key: d for cause in load_causes().values() for d in cause.detectors}
    found = {}
    for key, values in said.items():
        if key not in detectors:
            faults.append(f"[detectors.{key}]: no such detector; `gpu-minutes rules --list` names them")
        elif not isinstance(values, dict):
            faults.append(f"detectors.{key} is no section; write [detectors.{key}]")
        else:
            found[key] = _tuned(detectors[key], values, faults)
    return found


def _tuned(detector: Detector, values: Mapping[str, Any], faults: list[str]) -> Tuning:
    where = f"[detectors.{detector.key}]"
    names = {threshold.name for threshold in detector.thresholds}
    tuning = Tuning()
    numbers: dict[str, float] = {}
    for name, value in values.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if name == "enabled" and isinstance(value, bool):
            tuning = replace(tuning, enabled=value)
        elif name == "min_duration_s" and number and value >= 0:
            tuning = replace(tuning, min_duration_ms=round(value * 1000))
        elif name in names and number:
            numbers[name] = value
        elif name in names or name in _OWN:
            faults.append(f"{where} {name}: {value!r} is not {'true or false' if name == 'enabled' else 'a number'}")
        else:
            faults.append(f"{where} {name}: unknown; there are {_listed((*_OWN, *names))}")
    return replace(tuning, thresholds=numbers)


def _listed(names: Any) -> str:
    return ", ".join(sorted(names))
