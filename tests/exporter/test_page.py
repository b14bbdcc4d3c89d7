"""The page, written line by line from what is kept, is what the official writer writes."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from exporter import metrics as m
from exporter.page import PageWriter, render
from exporter.readings import Sample
from exporter.web.formats import choose_format
from tests.exporter.fake_nvml.script import FakeDriver
from tests.exporter.harness import Page, run_exporter

FORMATS = (
    "",
    "text/plain;version=1.0.0;escaping=allow-utf-8",
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8",
    "application/openmetrics-text;version=0.0.1",
)
UGLY = ('a"b', "back\\slash", "two\nlines", "\u2028 and \x0b and \x85", "1.0", "# HELP", "", "\u00e9", "x " * 3)
VALUES = (0.0, 1.0, -3.0, 0.1 + 0.2, 1e6, 123456789.5, 2.0**62, 1e300, float("inf"), float("nan"))


class Everything(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        return self._metrics


def official(samples: Sequence[Sample], accept: str) -> tuple[bytes, str]:
    """The page as the library writes it from one metric a family; the samples are in page order, none twice."""
    by_name: dict[str, Metric] = {}
    for family, labels, value in samples:
        base = family.name.removesuffix("_total") if family.type == "counter" else family.name
        metric = by_name.setdefault(family.name, Metric(base, family.help, family.type))
        metric.add_sample(family.name, dict(zip(family.labels, labels, strict=True)), value)
    encoder, content_type = choose_format(accept)
    return encoder(Everything(list(by_name.values()))), content_type


def random_page(rng: random.Random) -> list[Sample]:
    """Some families, some of their series, ugly labels, ugly values."""
    found: list[Sample] = []
    for family in m.FAMILIES:
        if rng.random() < 0.5:
            continue
        rows = {tuple(rng.choice(UGLY) for _ in family.labels) for _ in range(rng.randrange(1, 6))}
        found += [Sample(family, labels, rng.choice(VALUES)) for labels in sorted(rows)]
    return found


@pytest.mark.parametrize("accept", FORMATS)
def test_page_after_page_is_what_the_official_writer_writes(accept: str) -> None:
    """Families and series that come and go between pages, in one writer that also writes the other formats."""
    rng = random.Random(20261130)
    writer = PageWriter()
    for _ in range(60):
        samples = random_page(rng)
        assert writer.render(samples, accept) == official(samples, accept)
        assert writer.render(samples[::2], rng.choice(FORMATS))[0]


def test_nothing_is_kept_of_series_that_have_gone() -> None:
    writer = PageWriter()
    for number in range(50):
        writer.render([Sample(m.GPU_WORKLOAD_INFO, ("u", "s", "slurm", str(number), "", "", "", ""), 1.0)])
    assert [len(lines.by_labels) for kept in writer._kept.values() for lines in kept.values()] == [1]


@pytest.mark.parametrize("accept", FORMATS)
def test_a_real_page_is_what_the_official_writer_writes(driver: FakeDriver, env: dict[str, str], accept: str) -> None:
    text = run_exporter("--once", env=env).stdout
    by_name = {family.name: family for family in m.FAMILIES}
    samples = [
        Sample(by_name[one.name], tuple(one.labels[name] for name in by_name[one.name].labels), one.value)
        for family in Page(text).families.values()
        for one in family.samples
    ]
    assert len(samples) > 100
    body, content_type = render(samples, accept)
    assert (body, content_type) == official(samples, accept)
    assert accept or body.decode() == text


@pytest.mark.pain(32)
def test_a_page_like_the_last_one_asks_the_writer_for_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a scrape costs is its values, not its labels."""
    made: list[str] = []
    add = Metric.add_sample

    def counted(self: Metric, name: str, labels: dict[str, str], value: float) -> None:
        made.append(name)
        add(self, name, labels, value)

    monkeypatch.setattr(Metric, "add_sample", counted)
    writer = PageWriter()
    page = [Sample(m.GPU_POWER, (f"GPU-{n}", "s"), float(n)) for n in range(8)]
    first, _ = writer.render(page)
    assert len(made) == 8
    second, _ = writer.render([sample._replace(value=sample.value + 1) for sample in page])
    assert len(made) == 8
    assert (b" 0.0\n" in first, b" 8.0\n" in first) == (True, False)
    assert (b" 0.0\n" in second, b" 8.0\n" in second) == (False, True)
