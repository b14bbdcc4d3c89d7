"""Our own exporter: every family means what it says."""

from __future__ import annotations

from exporter.metrics import FAMILIES, PREFIX
from warehouse.signals.alias import Alias, Dialect, From

DIALECT = Dialect(
    name="ours",
    title="gpu-minutes-exporter",
    prefix=PREFIX,
    rows=tuple(
        Alias(family.name, family, tuple(From(label) for label in family.labels[2 if family.per_gpu else 0 :]))
        for family in FAMILIES
    ),
    slot="slot",
)
