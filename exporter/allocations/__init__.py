"""Sources of allocations: one file each, found by scanning this folder.

A module here defines `SOURCE`, a subclass of `exporter.allocation.AllocationSource` whose `name` is the module's.
"""

from __future__ import annotations

import importlib
import pkgutil

from exporter.allocation import AllocationSource
from exporter.errors import ExporterError


def discover() -> dict[str, type[AllocationSource]]:
    """Every source by name, sorted.

    Raises:
        ExporterError: a module in this folder is no source; all such modules are named.
    """
    found: dict[str, type[AllocationSource]] = {}
    problems: list[str] = []
    for name in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        candidate = getattr(importlib.import_module(f"{__name__}.{name}"), "SOURCE", None)
        if isinstance(candidate, type) and issubclass(candidate, AllocationSource) and candidate.name == name:
            found[name] = candidate
        else:
            problems.append(name)
    if problems:
        raise ExporterError(f"no SOURCE of the module's name in: {', '.join(problems)}")
    return found
