"""From samples to the page: the only place that writes exposition text, with prometheus_client's writer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from exporter.metrics import FAMILIES, Family
from exporter.readings import Sample
from exporter.web.formats import Encoder, choose_format

_ORDER = {family.name: position for position, family in enumerate(FAMILIES)}

Labels = tuple[str, ...]
"""Label values of a series, in the order of its family."""


class _Lines(NamedTuple):
    """What stands of a family on every page.

    Attributes:
        head: the lines above its samples.
        by_labels: the line of each series, without its value.
    """

    head: str
    by_labels: dict[Labels, str]


_NONE = _Lines("", {})


class _Page(Collector):
    """A finished set of families in the shape that the writer wants."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def group(samples: Iterable[Sample]) -> list[tuple[Family, dict[Labels, float]]]:
    """Groups samples by family, in contract order; of two samples with the same labels the first counts.

    Raises:
        KeyError: a family is not in the contract.
    """
    by_name: dict[str, tuple[Family, dict[Labels, float]]] = {}
    for family, labels, value in samples:
        known = by_name.get(family.name)
        if known is None:
            known = by_name[family.name] = (family, {})
        known[1].setdefault(labels, value)
    return [by_name[name] for name in sorted(by_name, key=_ORDER.__getitem__)]


def _metric(family: Family, rows: Iterable[Labels]) -> Metric:
    """A family with these series, all 0; raises ValueError if one has another number of labels than its family."""
    # The writer adds `_total` to a counter itself. `unit` stays empty: it would be added to the name.
    base = family.name.removesuffix("_total") if family.type == "counter" else family.name
    metric = Metric(base, family.help, family.type)
    for labels in rows:
        metric.add_sample(family.name, dict(zip(family.labels, labels, strict=True)), 0.0)
    return metric


class PageWriter:
    """Writes page after page of one source.

    A page is the same as the last but for its values, and prometheus_client spends nearly all its time on the rest: so
    each line is taken from it once, without its value, and kept while it stands on the page.

    Law: the text is, byte for byte, what prometheus_client writes.
    """

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, _Lines]] = {}  # by content type and name of the family

    def render(self, samples: Iterable[Sample], accept: str = "") -> tuple[bytes, str]:
        """The page and its content type, in the format that the `Accept` header asks for.

        Raises:
            KeyError: a family is not in the contract.
            ValueError: a sample has another number of labels than its family.
        """
        encoder, content_type = choose_format(accept)
        families = group(samples)
        kept = self._kept[content_type] = _keep(encoder, self._kept.get(content_type, {}), families)
        parts: list[str] = []
        for family, rows in families:
            head, by_labels = kept[family.name]
            parts.append(head)
            for labels, value in rows.items():
                text = floatToGoString(value)  # type: ignore[no-untyped-call]  # the library has no types here
                parts.append(f"{by_labels[labels]} {text}\n")
        return "".join(parts).encode() + encoder(_Page([])), content_type


def _keep(
    encoder: Encoder, known: Mapping[str, _Lines], families: Sequence[tuple[Family, Mapping[Labels, float]]]
) -> dict[str, _Lines]:
    """The lines of this page: those known from the last one, and the new ones from the library; no other.

    Makes new tables and changes none, since another thread may write a page at the same time.
    """
    new: list[tuple[Family, list[Labels]]] = []
    for family, rows in families:
        missing = rows.keys() - known.get(family.name, _NONE).by_labels.keys()
        if missing:
            new.append((family, list(missing)))
    taken = _take(encoder, new) if new else {}
    kept: dict[str, _Lines] = {}
    for family, rows in families:
        old, added = known.get(family.name, _NONE), taken.get(family.name, _NONE)
        if not added.by_labels and len(old.by_labels) == len(rows):
            kept[family.name] = old
            continue
        both = old.by_labels | added.by_labels
        kept[family.name] = _Lines(added.head or old.head, {labels: both[labels] for labels in rows})
    return kept


def _take(encoder: Encoder, families: Sequence[tuple[Family, Sequence[Labels]]]) -> dict[str, _Lines]:
    """Lines without their values, and the heads of their families, as the library writes them."""
    written = encoder(_Page([_metric(family, rows) for family, rows in families])).decode()
    lines = iter(written.split("\n"))  # and at nothing else: a label may hold other ends of lines
    found: dict[str, _Lines] = {}
    for family, rows in families:
        head = f"{next(lines)}\n{next(lines)}\n"  # HELP and TYPE
        found[family.name] = _Lines(head, {labels: next(lines).rpartition(" ")[0] for labels in rows})
    return found


def render(samples: Iterable[Sample], accept: str = "") -> tuple[bytes, str]:
    """One page; see `PageWriter.render`."""
    return PageWriter().render(samples, accept)
