"""Asking an Alertmanager that is none, is away or answers nonsense: one line, no password, nothing changed."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from tests.alerts.deliveries import Api, at, when
from tests.servers import free_port
from warehouse.alerts.poll import AlertmanagerClient, AlertmanagerError, poll


@contextmanager
def answering(code: int, body: bytes) -> Iterator[str]:
    """Runs a server that gives one answer to everything."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(code)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://user:hidden@127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("code", "body", "reason"),
    [
        (200, b"ok", "without JSON"),
        (200, b"[" * 100_000, "without JSON"),
        (200, b'{"a": 1}', "no list of alerts"),
        (404, b"not\nfound", "HTTP 404: not found"),
        (500, b"", "HTTP 500"),
    ],
    ids=repr,
)
def test_what_is_no_answer(api: Api, code: int, body: bytes, reason: str) -> None:
    with answering(code, body) as url, AlertmanagerClient(url) as client, pytest.raises(AlertmanagerError) as found:
        poll(api.engine, client, at(0))
    said = str(found.value)
    assert reason in said
    assert "hidden" not in said and "\n" not in said
    assert api.sql("select * from source_progress") == []


def test_nobody_there(api: Api) -> None:
    url = f"http://user:hidden@127.0.0.1:{free_port()}"
    with AlertmanagerClient(url) as client, pytest.raises(AlertmanagerError, match="cannot be reached") as found:
        poll(api.engine, client, at(0))
    assert "hidden" not in str(found.value)


def test_an_alert_that_cannot_be_used_is_a_dead_letter_once(api: Api) -> None:
    status = {"state": "suppressed", "silencedBy": ["x"], "inhibitedBy": [], "mutedBy": ["y"]}
    labels = {"alertname": "A", "node": "n1"}
    good = {"labels": labels, "startsAt": when(-5), "endsAt": when(60), "updatedAt": when(-1), "status": status}
    body = json.dumps([good, good | {"startsAt": "never"}, 7]).encode()
    with answering(200, body) as url, AlertmanagerClient(url) as client:
        listed = [poll(api.engine, client, at(minutes)) for minutes in (0, 30)]
    assert [(found.alerts, found.events, len(found.refused)) for found in listed] == [(3, 1, 2), (3, 0, 2)]
    assert api.count("alert_dead_letter") == 2
    assert api.episodes() == [("n1", -5, None, "open")]
    rows = api.sql("select silenced, inhibited, muted, ms_of(listed_at), ms_of(proven_at) from alert_episode")
    assert [tuple(row) for row in rows] == [(True, False, True, at(30), at(-1))]
