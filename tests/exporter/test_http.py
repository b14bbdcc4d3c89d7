"""The HTTP side of one node."""

from __future__ import annotations

import http.client
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from exporter.metrics import GPU_DOWN_REASON, GPU_ENERGY, GPU_POWER, Family
from exporter.page import render
from exporter.readings import Sample
from exporter.server import format_address, parse_listen_address
from tests.exporter.conftest import StartExporter
from tests.exporter.harness import request


def test_routes(start: StartExporter) -> None:
    exporter = start("--web.telemetry-path=/gpu")
    status, headers, body = request(exporter.port, "/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert 'href="/gpu"' in body
    assert request(exporter.port, "/gpu?x=1")[0] == 200
    assert request(exporter.port, "/metrics")[0] == 404
    assert request(exporter.port, "/-/healthy")[0] == 200
    status, headers, body = request(exporter.port, "/gpu", method="HEAD")
    assert (status, body) == (200, "")
    assert int(headers["Content-Length"]) > 1000


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_a_method_that_is_not_for_reading_is_refused_by_name(start: StartExporter, method: str) -> None:
    exporter = start()
    status, headers, body = request(exporter.port, "/metrics", method=method)
    assert (status, headers["Allow"], body) == (405, "GET, HEAD", "only GET and HEAD\n")
    assert request(exporter.port, "/metrics", method="BREW")[0] == 501


def test_it_is_ready_after_the_first_cycle(start: StartExporter) -> None:
    exporter = start()
    exporter.wait(lambda page: page.find("gpu_up"))
    end_s = time.monotonic() + 5
    while request(exporter.port, "/-/ready")[0] != 200 and time.monotonic() < end_s:
        time.sleep(0.05)
    assert request(exporter.port, "/-/ready")[0] == 200


def test_both_formats_say_the_same(start: StartExporter) -> None:
    exporter = start()
    plain = exporter.wait(lambda page: page.find("gpu_up"))
    accept = {"Accept": "application/openmetrics-text;version=1.0.0"}
    status, headers, body = request(exporter.port, "/metrics", accept)
    assert status == 200
    assert headers["Content-Type"].startswith("application/openmetrics-text")
    families = list(parse_openmetrics(body))  # type: ignore[no-untyped-call]  # it has no annotations
    assert {family.name for family in families} == set(plain.families)


def test_many_scrapes_at_once_are_answered_on_kept_connections(start: StartExporter) -> None:
    exporter = start()
    exporter.wait(lambda page: page.find("gpu_up"))

    def scrape(_: int) -> list[int]:
        connection = http.client.HTTPConnection("127.0.0.1", exporter.port, timeout=10)
        found: list[int] = []
        for _ in range(5):
            connection.request("GET", "/metrics")
            response = connection.getresponse()
            response.read()
            found.append(response.status)
        connection.close()
        return found

    with ThreadPoolExecutor(8) as pool:
        assert {status for found in pool.map(scrape, range(8)) for status in found} == {200}


@pytest.mark.parametrize(
    ("address", "parsed"),
    [
        ("127.0.0.1:9844", ("127.0.0.1", 9844)),
        ("localhost:0", ("localhost", 0)),
        (":9844", ("", 9844)),
        ("[::1]:9844", ("::1", 9844)),
    ],
)
def test_listen_addresses(address: str, parsed: tuple[str, int]) -> None:
    assert parse_listen_address(address) == parsed
    assert format_address(*parsed) == address


@pytest.mark.parametrize("address", ["", "9844", "host:", "host:-1", "host:65536", "host:\u0664", "::1:80"])
def test_bad_listen_addresses(address: str) -> None:
    with pytest.raises(ValueError, match=r"HOST:PORT|brackets"):
        parse_listen_address(address)


def test_label_values_survive_the_official_parser() -> None:
    ugly = 'a"b\\c\nd{}=,\u00e9'
    body, _ = render([Sample(GPU_DOWN_REASON, ("u", "s", ugly), 1.0), Sample(GPU_ENERGY, ("u", "s"), 2.5)])
    families = {family.name: family for family in text_string_to_metric_families(body.decode())}
    assert families["gpuminutes_gpu_down_reason"].samples[0].labels["reason"] == ugly
    assert families["gpuminutes_gpu_energy_joules"].samples[0].value == 2.5


def test_the_first_of_two_equal_samples_counts() -> None:
    body, _ = render([Sample(GPU_POWER, ("u", "s"), 1.0), Sample(GPU_POWER, ("u", "s"), 2.0)])
    lines = [line for line in body.decode().splitlines() if not line.startswith("#")]
    assert lines == ['gpuminutes_gpu_power_watts{slot="s",uuid="u"} 1.0']


def test_a_family_outside_the_contract_cannot_be_rendered() -> None:
    stray = Family("gpuminutes_stray", "gauge", "", "Not in the contract.")
    with pytest.raises(KeyError):
        render([Sample(stray, (), 1.0)])
    with pytest.raises(ValueError, match="argument"):
        render([Sample(GPU_POWER, ("u",), 1.0)])
