"""Series of other exporters, understood in our words and units.

`dialects/` holds one table per exporter. `translate` reads a page through them, `promql` writes the query that gives
one of our families from whatever Prometheus has. A new dialect is a new file and nothing else.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from functools import cache

from exporter.metrics import FAMILY_BY_NAME, GPU_WORKLOAD_INFO
from warehouse.signals import dialects
from warehouse.signals.alias import ADVICE, REASONS, Alias, Dialect, EventGauge, Mask, Refused, Row

OURS = "ours"


class TableError(Exception):
    """The alias tables break their own rules; `faults` names every break, not only the first."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("the alias tables are broken: " + "; ".join(faults))
        self.faults = faults


@cache
def load_dialects() -> tuple[Dialect, ...]:
    """Gives every dialect, ours first, then by name; read once and then kept.

    Raises:
        TableError: with all faults of all tables at once.
    """
    names = sorted((module.name for module in pkgutil.iter_modules(dialects.__path__)), key=lambda n: (n != OURS, n))
    found = tuple(importlib.import_module(f"{dialects.__name__}.{name}").DIALECT for name in names)
    faults = [f"{d.name}: the file is called {name}" for d, name in zip(found, names, strict=True) if d.name != name]
    faults += table_faults(found)
    if faults:
        raise TableError(faults)
    return found


def table_faults(found: Iterable[Dialect]) -> list[str]:
    """Gives every fault of the tables, in order; an empty list is a good table."""
    owners: dict[str, str] = {}
    faults = []
    if ADVICE.keys() != REASONS:
        faults.append(f"reasons without advice: {', '.join(sorted(REASONS - ADVICE.keys()))}")
    for dialect in found:
        if not dialect.prefix:
            faults.append(f"{dialect.name}: names need a prefix")
        for row in dialect.rows:
            where = f"{dialect.name}: {row.name}"
            if row.name in owners:
                faults.append(f"{where}: is already a row of {owners[row.name]}")
            owners.setdefault(row.name, dialect.name)
            if not row.name.startswith(dialect.prefix):
                faults.append(f"{where}: does not begin with {dialect.prefix}")
            faults += [f"{where}: {fault}" for fault in _row_faults(row, dialect)]
        for workload in dialect.workloads:
            known = {*GPU_WORKLOAD_INFO.labels[2:]} - {"kind"}
            if workload.key not in workload.labels or not workload.labels.keys() <= known:
                faults.append(f"{dialect.name}: workload {workload.kind} has labels that {known} do not hold")
    return faults


def _row_faults(row: Row, dialect: Dialect) -> list[str]:
    if isinstance(row, Refused):
        return [
            *([] if row.reason in REASONS else [f"reason {row.reason} is not of the closed set"]),
            *([] if row.why.strip() else ["a refusal needs its why"]),
        ]
    if isinstance(row, EventGauge):
        return [] if row.why.strip() else ["evidence that is no counter needs its why"]
    families = [row.family] if isinstance(row, Mask) or row.mig is None else [row.family, row.mig]
    faults = [f"{f.name} is no family of the contract" for f in families if FAMILY_BY_NAME.get(f.name) is not f]
    if dialect.name != OURS:
        faults += [
            f"{f.name} is a fact of the node, which another exporter cannot tell" for f in families if not f.per_gpu
        ]
    if isinstance(row, Mask):
        return faults if len(row.family.labels) == 3 else [*faults, f"{row.family.name} needs one label of its own"]
    return faults + _alias_faults(row)


def _alias_faults(row: Alias) -> list[str]:
    faults = []
    own = row.family.labels[2:] if row.family.per_gpu else row.family.labels
    if len(row.labels) != len(own):
        faults.append(f"has {len(row.labels)} labels, {row.family.name} has {', '.join(own) or 'none of its own'}")
    if row.mig is not None and (row.mig.labels[2:3] != ("gi",) or len(row.mig.labels) != 3 + len(row.labels)):
        faults.append(f"{row.mig.name} does not have gi and the {len(row.labels)} labels of the row")
    if row.mig is not None and not row.per_instance:
        faults.append(f"{row.mig.name} is a family of instances, but the row is not per instance")
    if row.times < 1 or row.per < 1 or 1 not in (row.times, row.per):
        faults.append(f"factor {row.times}/{row.per}: whole numbers from 1 are needed, one of them 1")
    if (row.times, row.per) != (1, 1) and not row.unit.strip():
        faults.append("a number that changes needs its unit and where that is written")
    if row.percent_above is not None and (row.times, row.per) != (1, 100):
        faults.append("what may be a percentage is divided by 100")
    return faults
