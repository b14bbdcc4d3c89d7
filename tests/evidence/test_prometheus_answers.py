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
from warehouse.evidence.prometheus import Failure, PrometheusClient, PrometheusError
from warehouse.evidence.transport import Patience
from warehouse.model.time import Window

DATA = Path(__file__).parent / "data" / "prometheus"
UNREACHABLE, REFUSED, MALFORMED, PARTIAL = Failure.UNREACHABLE, Failure.REFUSED, Failure.MALFORMED, Failure.PARTIAL
QUICK = Patience(tries=2, first_s=0.02)
WINDOW = Window(1_796_013_637_000, 1_796_013_657_000)


@contextmanager
def answering(status: int, body: bytes, delay_s: float = 0.0, now_ms: int = 0) -> Iterator[PrometheusClient]:
    """Gives a client, whose present is fixed, of a server that gives one answer to everything."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            time.sleep(delay_s)
            with suppress(BrokenPipeError):  # a client that lost its patience has hung up
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        do_GET = do_POST

        def log_message(self, format: str, *args: object) -> None:
            """Keeps the test's output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        address = f"http://me:secret@127.0.0.1:{server.server_port}/"
        with PrometheusClient(address, timeout_s=0.5, patience=QUICK, now_ms=lambda: now_ms) as client:
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


def captured(name: str) -> bytes:
    """Gives an answer that Prometheus 2.42 once gave."""
    return (DATA / f"prometheus_2.42_{name}.json").read_bytes()


def result(kind: str, items: str) -> bytes:
    """Gives a successful answer of any kind."""
    return f'{{"status":"success","data":{{"resultType":"{kind}","result":[{items}]}}}}'.encode()


def test_a_captured_matrix_is_read_with_times_in_milliseconds() -> None:
    with answering(200, captured("query_range_up")) as client:
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
    ("kind", "status", "body", "reason"),
    [
        (REFUSED, 400, captured("query_range_error"), "(bad_data): 1:5: parse error"),
        (REFUSED, 400, captured("query_range_too_many_points"), "11,000 points"),
        (REFUSED, 422, b'{"status":"error","errorType":"execution","error":"too many samples"}', "too many samples"),
        (
            UNREACHABLE,
            503,
            b"<html>\n<b>upstream</b>\nis gone</html>",
            "HTTP 503 without JSON: <html> <b>upstream</b> is",
        ),
        (UNREACHABLE, 500, vector(), "answered HTTP 500 with an unknown body"),
        (MALFORMED, 302, b"", "answered HTTP 302 without JSON"),
        (MALFORMED, 200, b'{"status":"success","data":', "HTTP 200 without JSON"),
        (MALFORMED, 200, b"[" * 100_000, "without JSON: [[["),
        (MALFORMED, 200, b"[]", "unknown body: []"),
        (MALFORMED, 200, b'{"status":"success"}', "gave a None where a vector"),
        (MALFORMED, 200, result("scalar", ""), "gave a scalar"),
        (MALFORMED, 200, result("vector", '{"metric":{}}'), "cannot be read"),
        (MALFORMED, 200, result("vector", '{"metric":{},"value":[1e999,"1"]}'), "cannot be read"),
        (PARTIAL, 200, vector(warnings=["store a did\nnot answer"]), "partial answer: store a did not answer"),
        (PARTIAL, 200, vector(warnings="all of \x1b[31mstore a"), "partial answer: all of [31mstore a"),
    ],
)
def test_every_refusal_is_one_line_with_its_kind(kind: Failure, status: int, body: bytes, reason: str) -> None:
    with answering(status, body) as client, pytest.raises(PrometheusError) as caught:
        client.ready()
    message = str(caught.value)
    assert reason in message and caught.value.kind is kind and message.isprintable()
    assert message.startswith("http://127.0.0.1:") and "\n" not in message and "secret" not in message


def test_a_server_that_takes_too_long_is_named_with_the_limit() -> None:
    with (
        answering(200, vector(), delay_s=1.0) as client,
        pytest.raises(PrometheusError, match=r"within 0\.5 s") as caught,
    ):
        client.ready()
    assert caught.value.kind is Failure.TIMEOUT


def test_a_server_that_is_not_there_is_one_clear_line() -> None:
    address = f"http://127.0.0.1:{free_port()}"
    with PrometheusClient(address, 1) as client, pytest.raises(PrometheusError) as caught:
        client.ready()
    assert str(caught.value) == f"{address} cannot be reached: [Errno 111] Connection refused"


def test_an_address_that_is_none_is_one_clear_line() -> None:
    with PrometheusClient("localhost:9090", 1) as client, pytest.raises(PrometheusError) as caught:
        client.ready()
    assert "cannot be reached" in str(caught.value) and caught.value.kind is Failure.UNREACHABLE
    assert client.traffic().retries == 0


def test_names_that_are_no_list_of_texts_are_malformed() -> None:
    for data in (b"[1]", b'{"a":"b"}', b"null"):
        with (
            answering(200, b'{"status":"success","data":' + data + b"}") as client,
            pytest.raises(PrometheusError, match="no list of texts") as caught,
        ):
            client.names(WINDOW)
        assert caught.value.kind is Failure.MALFORMED


def test_a_present_that_cannot_be_read_is_malformed_and_not_taken_for_the_past() -> None:
    for value in ('1,"NaN"', '1,"x"', "", "1", '1,"+Inf"'):
        with answering(200, result("scalar", value), now_ms=WINDOW.end_ms) as client:
            with pytest.raises(PrometheusError, match="a time that cannot be read") as caught:
                client.query_range("up", WINDOW, 2_000)
            assert caught.value.kind is Failure.MALFORMED
