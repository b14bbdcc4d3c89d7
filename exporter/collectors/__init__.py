"""Collectors: one file each, found by scanning this folder.

A module here defines `COLLECTOR`, a subclass of `exporter.collector.Collector` whose `name` is the module's.
"""

from __future__ import annotations

import importlib
import pkgutil

from exporter.collector import Collector
from exporter.errors import ExporterError


def discover() -> dict[str, type[Collector]]:
    """Every collector by name, sorted.

    Raises:
        ExporterError: a module in this folder is no collector; all such modules are named.
    """
    found: dict[str, type[Collector]] = {}
    problems: list[str] = []
    for name in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        candidate = getattr(importlib.import_module(f"{__name__}.{name}"), "COLLECTOR", None)
        if isinstance(candidate, type) and issubclass(candidate, Collector) and candidate.name == name:
            found[name] = candidate
        else:
            problems.append(name)
    if problems:
        raise ExporterError(f"no COLLECTOR of the module's name in: {', '.join(problems)}")
    return found
