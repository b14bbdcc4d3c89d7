"""The client against answers that a server can give: real refusals, and every way not to answer."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.detect.server import free_port
from warehouse.evidence.prometheus import PrometheusClient, PrometheusError
from warehouse.model.time import Window

DATA = Path(__file__).parent / "data" / "prometheus"
WINDOW = Window(1_796_013_637_000, 1_796_013_657_000)


@contextmanager
def answering(status: int, body: bytes, delay_s: float = 0.0) -> Iterator[PrometheusClient]:
    """Gives a client of a server that gives one answer to everything."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            time.sleep(delay_s)
            with suppress(BrokenPipeError):  # a client that lost its patience has hung up
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Keeps the test's output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        with PrometheusClient(f"http://me:secret@127.0.0.1:{server.server_port}/", timeout_s=0.5) as client:
            yield client
    finally:
        server.shutdown()
        server.server_close()


def vector(**more: object) -> bytes:
    """Gives a successful answer with one NaN and one infinity."""
    result = [
        {"metric": {"node": "a"}, "value": [1796013637.25, "NaN"]},
        {"metric": {"node": "b"}, "value": [1796013637.25, "+Inf"]},
    ]
    data = {"resultType": "vector", "result": result}
    return json.dumps({"status": "success", "data": data, **more}).encode()


def test_a_captured_matrix_is_read_with_times_in_milliseconds() -> None:
    with answering(200, (DATA / "prometheus_2.42_query_range_up.json").read_bytes()) as client:
        good, failing = client.query_range("up", WINDOW, 2_000)
    assert good.labels["instance"] == "127.0.0.1:29100"
    assert good.points[0] == (1_796_013_639_000, 1.0)
    assert next(at_ms for at_ms, value in failing.points if value == 0) == 1_796_013_645_000


def test_nan_stays_nan() -> None:
    with answering(200, vector()) as client:
        first, second = client.query("x")
    assert first.points[0][0] == 1_796_013_637_250
    assert math.isnan(first.points[0][1]) and second.points[0][1] == math.inf


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (400, (DATA / "prometheus_2.42_query_range_error.json").read_bytes(), "(bad_data): 1:5: parse error"),
        (400, (DATA / "prometheus_2.42_query_range_too_many_points.json").read_bytes(), "11,000 points"),
        (422, b'{"status":"error","errorType":"execution","error":"too many samples"}', "too many samples"),
        (503, b"<html>\n<b>upstream</b>\nis gone</html>", "HTTP 503 without JSON: <html> <b>upstream</b> is"),
        (200, b'{"status":"success","data":', "HTTP 200 without JSON"),
        (200, b"[]", "unknown body: []"),
        (200, b'{"status":"success","data":{"resultType":"scalar","result":[]}}', "gave a scalar"),
        (200, b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{}}]}}', "cannot be read"),
        (200, vector(warnings=["store a did\nnot answer"]), "partial answer: store a did not answer"),
    ],
)
def test_every_refusal_is_one_line_with_its_reason(status: int, body: bytes, reason: str) -> None:
    with answering(status, body) as client, pytest.raises(PrometheusError) as caught:
        client.ready()
    message = str(caught.value)
    assert reason in message
    assert message.startswith("http://127.0.0.1:") and "\n" not in message and "secret" not in message


def test_a_server_that_takes_too_long_is_named_with_the_limit() -> None:
    with answering(200, vector(), delay_s=1.0) as client, pytest.raises(PrometheusError, match=r"within 0\.5 s"):
        client.ready()


def test_a_server_that_is_not_there_is_one_clear_line() -> None:
    address = f"http://127.0.0.1:{free_port()}"
    with PrometheusClient(address, 1) as client, pytest.raises(PrometheusError) as caught:
        client.ready()
    assert str(caught.value) == f"{address} cannot be reached: [Errno 111] Connection refused"


def test_an_address_that_is_none_is_one_clear_line() -> None:
    with PrometheusClient("localhost:9090", 1) as client, pytest.raises(PrometheusError, match="cannot be reached"):
        client.ready()
