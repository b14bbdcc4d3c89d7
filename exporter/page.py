"""From samples to the page: the only place that writes exposition text, with prometheus_client's writer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from exporter.metrics import FAMILIES, Family
from exporter.readings import Sample
from exporter.web.formats import Encoder, choose_format

_ORDER = {family.name: position for position, family in enumerate(FAMILIES)}
_HEAD = None  # stands for the lines above the samples of a family

Rows = Mapping[tuple[str, ...], float]
"""Values of one family by label values."""
_Key = tuple[str, tuple[str, ...] | None]


class _Page(Collector):
    """A finished set of families in the shape that the writer wants."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def group(samples: Iterable[Sample]) -> list[tuple[Family, Rows]]:
    """Groups samples by family, in contract order; of two samples with the same labels the first counts.

    Raises:
        KeyError: a family is not in the contract.
    """
    by_name: dict[str, tuple[Family, dict[tuple[str, ...], float]]] = {}
    for family, labels, value in samples:
        known = by_name.get(family.name)
        if known is None:
            known = by_name[family.name] = (family, {})
        known[1].setdefault(labels, value)
    return [by_name[name] for name in sorted(by_name, key=_ORDER.__getitem__)]


def _metric(family: Family, rows: Iterable[tuple[str, ...]]) -> Metric:
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
        self._kept: dict[str, dict[_Key, str]] = {}

    def render(self, samples: Iterable[Sample], accept: str = "") -> tuple[bytes, str]:
        """The page and its content type, in the format that the `Accept` header asks for.

        Raises:
            KeyError: a family is not in the contract.
            ValueError: a sample has another number of labels than its family.
        """
        encoder, content_type = choose_format(accept)
        families = group(samples)
        known = self._kept.get(content_type, {})
        new = [
            (family, found)
            for family, rows in families
            if (found := [labels for labels in rows if (family.name, labels) not in known])
        ]
        if new:
            known = known | _take_lines(encoder, new)
        kept: dict[_Key, str] = {}
        parts: list[str] = []
        for family, rows in families:
            name = family.name
            kept[name, _HEAD] = head = known[name, _HEAD]
            parts.append(head)
            for labels, value in rows.items():
                kept[name, labels] = line = known[name, labels]
                text = floatToGoString(value)  # type: ignore[no-untyped-call]  # the library has no types here
                parts.append(f"{line} {text}\n")
        self._kept[content_type] = kept  # whole: another thread may write a page at the same time
        end = encoder(_Page([]))
        return "".join(parts).encode() + end, content_type


def _take_lines(encoder: Encoder, families: list[tuple[Family, list[tuple[str, ...]]]]) -> dict[_Key, str]:
    """Lines without their values, and the heads of their families, as the library writes them."""
    written = encoder(_Page([_metric(family, rows) for family, rows in families])).decode()
    lines = iter(written.split("\n"))  # and at nothing else: a label may hold other ends of lines
    found: dict[_Key, str] = {}
    for family, rows in families:
        found[family.name, _HEAD] = f"{next(lines)}\n{next(lines)}\n"  # HELP and TYPE
        for labels in rows:
            found[family.name, labels] = next(lines).rpartition(" ")[0]
    return found


def render(samples: Iterable[Sample], accept: str = "") -> tuple[bytes, str]:
    """One page; see `PageWriter.render`."""
    return PageWriter().render(samples, accept)
