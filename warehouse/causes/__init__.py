"""The catalogue of causes: one file per cause, found by a scan of the folders.

`warehouse/causes/<category>/<name>.py` holds one module constant `CAUSE`; its code is `<category>/<name>`.
A new cause is a new file and nothing else.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from string import Template
from types import MappingProxyType, ModuleType

from warehouse.model.cause import SYMPTOM_RANK, UNATTRIBUTED, Cause, Detector

# Lowest and highest rank of each category. A lower rank is nearer to the root: lost power explains a lost
# node, a lost node explains a hung job.
RANK_BANDS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "capacity": (5, 5),
        "facility": (10, 14),
        "power": (10, 14),
        "cooling": (10, 14),
        "host": (20, 25),
        "accelerator": (30, 34),
        "fabric": (40, 43),
        "storage": (50, 54),
        "change": (60, 67),
        "software": (60, 67),
        "platform": (60, 67),
        "operations": (60, 67),
        "scheduling": (60, 67),
        "workload": (70, 75),
        "serving": (70, 75),
        "symptom": (SYMPTOM_RANK, SYMPTOM_RANK),
        "unknown": (99, 99),
    }
)

# These change no GPU's state by themselves: a GPU works on until its remap is applied, and so does a
# superchip with a link fault; time without a known cause is in whatever state was seen.
STATELESS = frozenset({"accelerator/hbm_row_remap_pending", "fabric/nvlink_c2c", UNATTRIBUTED})

DETECTOR_SCOPES = frozenset({"node", "gpu", "job", "endpoint"})

_SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
# A series in PromQL with what follows it: matchers and a range.
_SERIES = re.compile(
    r"\b(?:up|(?:gpuminutes|DCGM|node|kube|slurm|ipmi)_\w+|vllm:\w+)\b(?![(=])(?:\{[^{}]*\})?(?:\[[^\]]*\])?"
)
_SENTENCES = ("title", "owner", "signature", "duration", "blast", "source", "first_step")


class CatalogueError(Exception):
    """The catalogue breaks its own rules; `faults` names every break, not only the first."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("the catalogue of causes is broken: " + "; ".join(faults))
        self.faults = faults


@cache
def load_causes() -> Mapping[str, Cause]:
    """Gives every cause by its code, in sorted order; read once and then kept.

    Raises:
        CatalogueError: with all faults of the catalogue at once.
    """
    return read_catalogue(importlib.import_module(__name__))


def read_catalogue(package: ModuleType) -> Mapping[str, Cause]:
    """Gives the causes in the category folders of a package, each with its code filled in.

    Raises:
        CatalogueError: with all faults of the catalogue at once.
    """
    causes: dict[str, Cause] = {}
    faults: list[str] = []
    for category, name, module in _cause_modules(package):
        code = f"{category}/{name}"
        found = getattr(module, "CAUSE", None)
        if isinstance(found, Cause):
            causes[code] = replace(found, code=code)
            faults += _faults_of(causes[code])
        else:
            faults.append(f"{code}: the file has no constant CAUSE")
    faults += _duplicates(causes)
    if faults:
        raise CatalogueError(faults)
    return MappingProxyType(causes)


def _cause_modules(package: ModuleType) -> list[tuple[str, str, ModuleType]]:
    found = []
    for folder in sorted(pkgutil.iter_modules(package.__path__), key=lambda entry: entry.name):
        if not folder.ispkg:
            continue
        category = importlib.import_module(f"{package.__name__}.{folder.name}")
        for entry in sorted(pkgutil.iter_modules(category.__path__), key=lambda entry: entry.name):
            module = importlib.import_module(f"{category.__name__}.{entry.name}")
            found.append((folder.name, entry.name, module))
    return found


def _faults_of(cause: Cause) -> list[str]:
    category, name = cause.code.split("/")
    faults = [f"'{part}' is not snake_case" for part in (category, name) if not _SNAKE_CASE.fullmatch(part)]
    if category not in RANK_BANDS:
        faults.append(f"category '{category}' has no band of ranks")
    elif not RANK_BANDS[category][0] <= cause.rank <= RANK_BANDS[category][1]:
        low, high = RANK_BANDS[category]
        faults.append(f"rank {cause.rank} is outside {low} to {high}")
    if cause.state is None and cause.code not in STATELESS:
        faults.append("the usual state is missing")
    faults += [f"{field} is empty" for field in _SENTENCES if not getattr(cause, field).strip()]
    for detector in cause.detectors:
        faults += [f"detector {detector.key} {fault}" for fault in _detector_faults(detector)]
    return [f"{cause.code}: {fault}" for fault in faults]


def _detector_faults(detector: Detector) -> Iterator[str]:
    """Gives what is wrong with a detector: what PromQL itself would refuse, promtool finds in its examples."""
    if detector.scope not in DETECTOR_SCOPES:
        yield f"has the unknown scope '{detector.scope}'"
    if detector.version < 1 or detector.min_duration_ms < 0 or bool(detector.expr.strip()) == bool(detector.fan_in):
        yield "needs an expression (or a fan-in), a version from 1 and a duration from 0"
    texts = (detector.expr, detector.onset_expr, detector.coarse, detector.lost_expr, *detector.clears)
    used = {name for text in (*texts, *(w.value for w in detector.witnesses)) for name in _placeholders(text)}
    known = {threshold.name for threshold in detector.thresholds}
    for name in sorted(used - known - {"window", "span"}):
        yield f"uses ${name}, which is none of its thresholds"
    for name in sorted(known - used):
        yield f"has the threshold {name} and does not use it"
    for threshold in detector.thresholds:
        if not threshold.unit.strip() or not threshold.why.strip():
            yield f"has the threshold {threshold.name} without its unit or where it comes from"
    if (detector.window_ms > 0) != ("window" in _placeholders(detector.expr)):
        yield "needs window_ms and $window together"
    if (detector.window_of == "none") != (detector.window_ms == 0 or bool(detector.onset_expr)):
        yield "needs window_of where $window dates the edges, and nowhere else"
    if any("$span" not in use for use in _SERIES.findall(detector.coarse)):
        yield "has a coarse expression that looks at a series other than over $span: it may miss what came and went"
    if detector.lost_expr and not detector.lost_expr.startswith("clamp("):
        yield "has a lost part that is not held to 0 to 1 by clamp()"
    if detector.basis not in ("measured", "inferred"):
        yield f"has the unknown basis '{detector.basis}'"


def _placeholders(text: str) -> list[str]:
    return Template(text).get_identifiers()


def _duplicates(causes: Mapping[str, Cause]) -> list[str]:
    """Names every title or detector key that two causes share: both are used to find the one cause again."""
    owners: dict[str, str] = {}
    faults = []
    for code, cause in causes.items():
        names = [f"title '{cause.title}'", *(f"detector '{detector.key}'" for detector in cause.detectors)]
        for name in names:
            if name in owners:
                faults.append(f"{code}: {name} is already used by {owners[name]}")
            owners.setdefault(name, code)
    return faults
