"""Sources of readings: one file per subject, found by scanning this folder.

A module here defines `SOURCES`, a tuple of `exporter.nvml.source.Source` and `exporter.nvml.fields.FieldId`. A new
reading is a family in `exporter/metrics.py` and a line in one of these files.
"""

from __future__ import annotations

import importlib
import pkgutil

from exporter.nvml.fields import FieldId, merge
from exporter.nvml.source import Source


def discover() -> tuple[Source, ...]:
    """Every source, by module name, then in the order of the module; field ids of one speed in one source."""
    found: list[Source | FieldId] = []
    for name in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        found.extend(importlib.import_module(f"{__name__}.{name}").SOURCES)
    return merge(found)


SOURCES = discover()
