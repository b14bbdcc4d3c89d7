"""The HTTP side of one node."""

from __future__ import annotations

import http.client
import re
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from exporter import __version__
from exporter.metrics import GPU_DOWN_REASON, GPU_ENERGY, GPU_POWER, Family
from exporter.page import render
from exporter.readings import Sample
from exporter.server import App, Limits, Response, Server, format_address, parse_listen_address, queue_s, text
from exporter.web.live import LiveGuard
from tests.exporter.conftest import StartExporter
from tests.exporter.fake_nvml.script import FakeDriver
from tests.exporter.harness import Exporter, command, request


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


@pytest.mark.pain(24)
def test_readiness_follows_the_data_and_its_age_is_on_the_page(start: StartExporter, driver: FakeDriver) -> None:
    """A driver that stops answering makes the exporter not ready, though it serves on; and back, by itself."""
    driver.state.init_hangs = 1
    exporter = start()
    status, _, body = request(exporter.port, "/-/ready")
    assert status == 503 and "nvml" in body
    driver.state.init_hangs = 0
    wait_ready(exporter, 200)
    driver.gpu(0).hang("power")
    assert "collector nvml" in wait_ready(exporter, 503)
    page = exporter.wait(lambda page: page.value("collect_success", collector="nvml") == 0)
    age_s = time.time() - page.value("collect_last_success_timestamp_seconds", collector="nvml")
    assert 0 < age_s < 30
    driver.gpu(0).hang("power", on=False)
    wait_ready(exporter, 200)


def wait_ready(exporter: Exporter, wanted: int) -> str:
    """Waits for an answer of /-/ready; gives its body."""
    end_s = time.monotonic() + 15
    while True:
        status, _, body = request(exporter.port, "/-/ready")
        if status == wanted:
            return body
        assert time.monotonic() < end_s, (status, body)
        time.sleep(0.05)


@pytest.mark.pain(27)
def test_liveness_answers_while_the_driver_hangs_and_the_hang_is_scraped(
    start: StartExporter, driver: FakeDriver
) -> None:
    exporter = start()
    exporter.wait(lambda page: page.find("gpu_up"))
    driver.gpu(0).hang("power")
    exporter.wait(lambda page: page.value("nvml_worker_stuck") == 1)
    for _ in range(20):
        began_s = time.perf_counter()
        assert request(exporter.port, "/-/healthy")[::2] == (200, "ok\n")
        assert exporter.page().value("nvml_worker_stuck") == 1
        assert time.perf_counter() - began_s < 1
    assert "the driver does not answer" in request(exporter.port, "/-/ready")[2]
    status, _, body = request(exporter.port, "/")
    assert status == 200
    assert re.search(r'<td>nvml<td class="bad">(fails|overdue)', body)
    assert '<p class="note">Not ready: collector nvml: the driver does not answer.</p>' in body


@pytest.mark.pain(32)
def test_a_hundred_scrapes_make_no_driver_call(start: StartExporter) -> None:
    """The driver process does not even run between two cycles: its CPU time and switches stand still."""
    exporter = start("--collector.nvml.interval=30", "--no-collector.xid")
    exporter.wait(lambda page: page.find("gpu_up"))
    (child,) = exporter.children()

    def activity() -> str:
        text = Path(f"/proc/{child}/status").read_text()
        return "".join(re.findall(r"^(?:non)?voluntary_ctxt_switches:.*$", text, re.MULTILINE))

    before, end_s = "", time.monotonic() + 20
    while activity() != before and time.monotonic() < end_s:  # it has come to rest
        before = activity()
        time.sleep(0.5)
    for _ in range(100):
        assert request(exporter.port, "/metrics")[0] == 200
    assert activity() == before
    assert exporter.children() == [child]


class _Slow(App):
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.began = threading.Semaphore(0)

    def respond(self, path: str, headers: Mapping[str, str]) -> Response | None:
        self.began.release()
        self.go.wait(20)
        return text(200, "late")


@contextmanager
def serving(app: App, limits: Limits) -> Iterator[Server]:
    """A server in this process, over an app that a test controls."""
    server = Server(("127.0.0.1", 0), app, LiveGuard(None), limits)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_request_waits_for_its_turn_no_longer_than_its_scraper_would() -> None:
    app, header = _Slow(), "X-Prometheus-Scrape-Timeout-Seconds"
    with serving(app, Limits(requests=2)) as server, ThreadPoolExecutor(8) as pool:
        first = [pool.submit(request, server.server_port, "/") for _ in range(2)]
        for _ in first:
            assert app.began.acquire(timeout=5)
        for timeout, least_s, most_s in (("0.3", 0, 0.4), ("1", 0.4, 1.0), ("1.5", 0.9, 1.5)):
            began_s = time.monotonic()
            status, _, body = request(server.server_port, "/", {header: timeout})
            assert (status, body) == (503, "more than 2 requests at a time\n")
            assert least_s <= time.monotonic() - began_s < most_s, timeout
        waiting = pool.submit(request, server.server_port, "/", {header: "10"})
        time.sleep(0.2)
        app.go.set()
        assert waiting.result(5)[0] == 200
        assert [future.result(5)[0] for future in first] == [200, 200]


@pytest.mark.parametrize("header", ["", "soon", "nan", "inf", "-1", "0", "1e999"])
def test_a_scrape_timeout_that_makes_no_sense_is_ignored(header: str) -> None:
    assert queue_s(header) == 5.0


def test_more_connections_than_there_are_places_for_are_closed_at_once() -> None:
    app = _Slow()
    app.go.set()
    with serving(app, Limits(connections=3)) as server:
        kept = [http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5) for _ in range(3)]
        for connection in kept:
            connection.request("GET", "/")
            assert connection.getresponse().read() == b"late\n"
        with pytest.raises((OSError, http.client.HTTPException)):
            request(server.server_port, "/")
        kept.pop().close()
        end_s = time.monotonic() + 5
        status = 0
        while status != 200 and time.monotonic() < end_s:
            with suppress(OSError, http.client.HTTPException):
                status = request(server.server_port, "/")[0]
        assert status == 200
        for connection in kept:
            connection.close()


def raw(port: int, sent: bytes) -> bytes:
    """All that comes back on a connection until the server closes it."""
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(sent)
        connection.settimeout(5)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_a_body_is_not_taken_for_the_next_request(start: StartExporter) -> None:
    smuggled = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
    head = b"GET /-/healthy HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(smuggled)
    exporter = start()
    answer = raw(exporter.port, head + smuggled)
    assert answer.count(b"HTTP/1.1 ") == 1 and answer.endswith(b"ok\n")
    chunked = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    answer = raw(exporter.port, chunked + smuggled)
    assert answer.count(b"HTTP/1.1 ") == 1 and b"405" in answer


def test_odd_requests_get_an_answer_and_cost_nothing(start: StartExporter) -> None:
    exporter = start()
    close = b"Host: x\r\nConnection: close\r\n\r\n"
    assert raw(exporter.port, b"GET http://[ HTTP/1.1\r\n" + close).startswith(b"HTTP/1.1 400 ")
    assert raw(exporter.port, b"GET http://x/-/healthy HTTP/1.1\r\n" + close).startswith(b"HTTP/1.1 200 ")
    assert raw(exporter.port, b"GET /-/healthy?a=b&c#d HTTP/1.1\r\n" + close).startswith(b"HTTP/1.1 200 ")
    assert raw(exporter.port, b"GET /-/healthy HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    assert raw(exporter.port, b"nonsense\r\n\r\n").count(b"400") >= 1
    exporter.stop()
    assert not [line for line in exporter.log if "level=error" in line or "traceback" in line]


def test_several_addresses_share_one_exporter(start: StartExporter) -> None:
    exporter = start("--web.listen-address=127.0.0.2:0,127.0.0.3:0", "--web.listen-address=127.0.0.4:0")
    assert exporter.process.stderr is not None
    while len(exporter.log) < 4 or "listening on 127.0.0.4" not in "".join(exporter.log):
        exporter.log.append(exporter.process.stderr.readline())
    found = dict(re.findall(r"listening on (127\.0\.0\.\d):(\d+)", "".join(exporter.log)))
    assert list(found) == ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"]
    for host, port in found.items():
        with urllib.request.urlopen(f"http://{host}:{port}/-/healthy", timeout=5) as answer:
            assert answer.status == 200
    assert exporter.stop() == 0


def test_pages_in_the_clear_for_other_machines_are_told_once(env: dict[str, str]) -> None:
    line = command("--web.listen-address=0.0.0.0:0", "--web.listen-address=[::]:0", "--no-collector.nvml")
    process = subprocess.Popen(line, env=env, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    log = [process.stderr.readline() for _ in range(3)]
    process.terminate()
    log += process.stderr.read().splitlines(keepends=True)
    assert process.wait(20) == 0
    (warning,) = [line for line in log if "level=warning" in line]
    assert "other machines can read every page, without TLS or a password; see --web.config.file" in warning
    assert len([line for line in log if "listening on" in line]) == 2


def test_the_landing_page_says_what_runs_and_what_does_not(start: StartExporter) -> None:
    exporter = start("--no-collector.psi")
    exporter.wait(lambda page: page.find("gpu_up"))
    status, _, body = request(exporter.port, "/")
    assert status == 200 and f"Version {__version__}." in body
    assert re.search(
        r'<td>nvml<td class="good">works<td class="number">\d+ (ms|s) ago<td class="number">\d+ (ms|s)', body
    )
    assert '<td>psi<td class="dim">off<td class="number">-<td class="number">-' in body
    assert "<script" not in body and "http://" not in body and "https://" not in body
