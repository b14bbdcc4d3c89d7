"""Which format and encoding a client gets, and that both official parsers read the whole of it."""

from __future__ import annotations

import gzip
import http.client
import re
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from exporter.web.formats import choose_format, gzip_wanted
from tests.exporter.conftest import StartExporter
from tests.exporter.fake_nvml.script import GPU_IS_LOST, FakeDriver
from tests.exporter.harness import PROC, request

PLAIN = "text/plain; version=0.0.4; charset=utf-8"
OPEN = "application/openmetrics-text"
# What the server sends: Prometheus 2.42 (scrape/scrape.go), and 3.x.
PROMETHEUS_2 = f"{OPEN};version=1.0.0,{OPEN};version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
PROMETHEUS_3 = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,"
    f"{OPEN};version=1.0.0;escaping=allow-utf-8;q=0.5,{OPEN};version=0.0.1;q=0.4,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", PLAIN),
        ("*/*", PLAIN),
        ("text/html,application/xhtml+xml,*/*;q=0.8", PLAIN),
        ("text/plain", PLAIN),
        ("text/plain;version=0.0.4", PLAIN),
        ("text/plain;version=1.0.0", "text/plain; version=1.0.0; charset=utf-8; escaping=underscores"),
        (
            "text/plain; version=1.0.0; escaping=allow-utf-8",
            "text/plain; version=1.0.0; charset=utf-8; escaping=allow-utf-8",
        ),
        (OPEN, f"{OPEN}; version=1.0.0; charset=utf-8"),
        (f"{OPEN};version=0.0.1", f"{OPEN}; version=0.0.1; charset=utf-8"),
        (f"{OPEN};version=1.0.0", f"{OPEN}; version=1.0.0; charset=utf-8; escaping=underscores"),
        (f'{OPEN.upper()}; VERSION="1.0.0"', f"{OPEN}; version=1.0.0; charset=utf-8; escaping=underscores"),
        (PROMETHEUS_2, f"{OPEN}; version=1.0.0; charset=utf-8; escaping=underscores"),
        (PROMETHEUS_3, f"{OPEN}; version=1.0.0; charset=utf-8; escaping=allow-utf-8"),
        # The weight counts, not the order; what is not wanted is not given.
        (f"{OPEN};version=1.0.0;q=0.1,text/plain;version=0.0.4", PLAIN),
        (f"{OPEN};version=1.0.0;q=0,text/plain;q=0.1", PLAIN),
        (f"*/*;q=0.1,{OPEN};version=0.0.1", f"{OPEN}; version=0.0.1; charset=utf-8"),
        # Nothing here writes these, and no header breaks the page.
        (f"{OPEN};version=9.9.9", PLAIN),
        (f"{OPEN};version=one", PLAIN),
        ("application/json", PLAIN),
        (f"{OPEN};q=often", PLAIN),
        (";;=;,,q=1;version", PLAIN),
    ],
)
def test_the_best_format_that_is_wanted(accept: str, content_type: str) -> None:
    assert choose_format(accept)[1] == content_type


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("gzip", True),
        ("gzip, deflate, br", True),
        ("GZIP;q=0.5", True),
        ("x-gzip", True),
        ("*", True),
        ("identity;q=0.5, gzip;q=1.0", True),
        ("", False),
        ("identity", False),
        ("deflate", False),
        ("gzip;q=0", False),
        ("gzip;q=0.0, *;q=1", False),
        ("*;q=0", False),
        ("identity, gzip;q=0.5", False),
        ("gzip;q=x", False),
    ],
)
def test_gzip_only_where_it_is_wanted(header: str, wanted: bool) -> None:
    assert gzip_wanted(header) is wanted


def fetch(port: int, method: str, headers: dict[str, str]) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, "/metrics", headers=headers)
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def test_a_compressed_page_is_the_page_and_much_smaller(start: StartExporter) -> None:
    exporter = start()
    exporter.wait(lambda page: page.find("gpu_up"))
    plain, body = fetch(exporter.port, "GET", {"accept-encoding": "identity"})  # names of headers have no case
    assert plain.getheader("Content-Encoding") is None
    zipped, small = fetch(exporter.port, "GET", {"accept-encoding": "gzip"})
    assert zipped.getheader("Content-Encoding") == "gzip"
    assert plain.getheader("Vary") == zipped.getheader("Vary") == "Accept, Accept-Encoding"
    assert len(small) < len(body) / 4
    names = [sorted({line.split("{")[0] for line in text.splitlines()}) for text in (body.decode(), unzip(small))]
    assert names[0] == names[1]
    head, nothing = fetch(exporter.port, "HEAD", {"accept-encoding": "gzip"})
    assert (head.status, nothing, head.getheader("Content-Encoding")) == (200, b"", "gzip")
    assert 0.5 < int(head.getheader("Content-Length") or 0) / len(small) < 2


def unzip(body: bytes) -> str:
    return gzip.decompress(body).decode()


@pytest.mark.pain(13)
@pytest.mark.parametrize(
    "accept", ["", "text/plain;version=1.0.0", f"{OPEN};version=0.0.1", PROMETHEUS_2, PROMETHEUS_3]
)
def test_the_whole_page_is_read_by_the_official_parsers(
    start: StartExporter, driver: FakeDriver, tmp_path: Path, accept: str
) -> None:
    """With a lost GPU, names that need escaping and a job: every sample of every format is a finite number."""
    ugly = b'NVIDIA "H100" \\ 80GB {a="b"}\t\xc3\xa9'
    driver.gpu(0).name = ugly
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (jobs / "0").write_text("4711\n")
    exporter = start(f"--collector.job.directory={jobs}", f"--path.procfs={PROC}")
    exporter.wait(lambda page: page.find("gpu_allocated"))
    driver.gpu(1).every_return = GPU_IS_LOST
    exporter.wait(lambda page: page.find("gpu_down_reason"))
    status, headers, body = request(exporter.port, "/metrics", {"Accept": accept})
    assert status == 200
    is_open = headers["Content-Type"].startswith(OPEN)
    assert is_open == body.endswith("# EOF\n") == (OPEN in accept)
    parse = parse_openmetrics if is_open else parse_text
    families = list(parse(body))  # type: ignore[operator]  # the second has no annotations
    samples = [sample for family in families for sample in family.samples]
    lines = [line for line in body.splitlines() if line and not line.startswith("#")]
    assert len(samples) == len(lines) > 100
    for sample in samples:
        assert sample.value - sample.value == 0, sample  # neither NaN nor infinite
    (info,) = [s for s in samples if s.name == "gpuminutes_gpu_info" and s.labels["index"] == "0"]
    assert info.labels["model"] == ugly.decode()
    values = {line.rsplit(" ", 1)[1] for line in lines}
    assert not [value for value in values if not re.fullmatch(r"-?[0-9.]+(e[+-]?[0-9]+)?", value)]
