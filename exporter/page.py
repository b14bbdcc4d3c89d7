"""From samples to the page: the only place that writes exposition text, with prometheus_client's writer."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from exporter.metrics import FAMILIES, Family
from exporter.readings import Sample
from exporter.web.formats import choose_format

_ORDER = {family.name: position for position, family in enumerate(FAMILIES)}


class _Page(Collector):
    """A finished set of families in the shape that the writer wants."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def build_families(samples: Iterable[Sample]) -> list[Metric]:
    """Groups samples by family, in contract order; of two samples with the same labels the first counts.

    Raises:
        KeyError: a family is not in the contract.
        ValueError: a sample has another number of labels than its family.
    """
    by_name: dict[str, tuple[Family, dict[tuple[str, ...], float]]] = {}
    for family, labels, value in samples:
        if family.name not in by_name:
            by_name[family.name] = (family, {})
        by_name[family.name][1].setdefault(labels, value)
    found: list[Metric] = []
    for name in sorted(by_name, key=_ORDER.__getitem__):
        family, rows = by_name[name]
        # The writer adds `_total` to a counter itself. `unit` stays empty: it would be added to the name.
        base = name.removesuffix("_total") if family.type == "counter" else name
        metric = Metric(base, family.help, family.type)
        for labels, value in rows.items():
            metric.add_sample(name, dict(zip(family.labels, labels, strict=True)), value)
        found.append(metric)
    return found


def render(samples: Iterable[Sample], accept: str = "") -> tuple[bytes, str]:
    """The page and its content type, in the format that the `Accept` header asks for."""
    encoder, content_type = choose_format(accept)
    return encoder(_Page(build_families(samples))), content_type
