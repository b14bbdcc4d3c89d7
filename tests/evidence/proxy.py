"""A small HTTP proxy in front of a real server, which spoils the answers that it is told to spoil."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

# How the packets of a slow answer are apart, in seconds.
DRIP_S = 0.1


@dataclass
class Reply:
    """What goes back to the client: `length` is what it is promised, None the truth."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    length: int | None = None
    delay_s: float = 0.0
    drips: bool = False
    hangs_up: bool = False


Fault = Callable[[Reply], Reply]


@dataclass
class Proxy:
    """The address, what was asked, and the faults to come: one a request, then `always`."""

    address: str
    faults: list[Fault] = field(default_factory=list)
    always: Fault | None = None
    seen: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def spoil(self, reply: Reply) -> Reply:
        """Gives the reply with the next fault in it."""
        fault = self.faults.pop(0) if self.faults else self.always
        return reply if fault is None else fault(reply)


def well(reply: Reply) -> Reply:
    """Leaves an answer as it is."""
    return reply


def down(_: Reply) -> Reply:
    """Hangs up without a word."""
    return Reply(0, b"", hangs_up=True)


def slow(reply: Reply) -> Reply:
    """Waits for longer than the clients of these tests do."""
    return Reply(reply.status, reply.body, delay_s=1.0)


def endless(reply: Reply) -> Reply:
    """Goes on saying something, a byte at a time."""
    return Reply(reply.status, reply.body, drips=True)


def busy(status: int, retry_after: str = "") -> Fault:
    """Answers as a gateway does whose server is away."""
    headers = {"Retry-After": retry_after} if retry_after else {}
    return lambda _: Reply(status, b"upstream connect error", headers)


def html(_: Reply) -> Reply:
    """Answers as a page of login does."""
    return Reply(200, b"<html><body>Please log in</body></html>")


def broken_off(reply: Reply) -> Reply:
    """Promises the whole answer and hangs up in the middle."""
    return Reply(reply.status, reply.body[: len(reply.body) // 2], length=len(reply.body))


def half(reply: Reply) -> Reply:
    """Gives half of the answer as if that were all."""
    return Reply(reply.status, reply.body[: len(reply.body) // 2])


def not_packed(reply: Reply) -> Reply:
    """Says that the answer is packed, and it is not."""
    return Reply(reply.status, reply.body, {"Content-Encoding": "gzip"})


def saying(**more: Any) -> Fault:
    """Adds members to the answer, as engines over several stores do."""
    return lambda reply: Reply(reply.status, json.dumps({**json.loads(reply.body), **more}).encode())


def refusing(status: int, kind: str, text: str) -> Fault:
    """Refuses in the words of a server that is not at hand."""
    body = json.dumps({"status": "error", "errorType": kind, "error": text}).encode()
    return lambda _: Reply(status, body)


class _Handler(BaseHTTPRequestHandler):
    upstream: httpx.Client
    proxy: Proxy

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        kept = {key: value for key, value in self.headers.items() if key.lower() in ("content-type", "authorization")}
        self.proxy.seen.append((content.decode(), {key.lower(): value for key, value in self.headers.items()}))
        answer = self.upstream.request(self.command, self.path, content=content, headers=kept)
        self._give(self.proxy.spoil(Reply(answer.status_code, answer.content)))

    do_GET = do_POST

    def _give(self, reply: Reply) -> None:
        time.sleep(reply.delay_s)
        with suppress(BrokenPipeError, ConnectionResetError):  # a client that lost its patience has hung up
            self.close_connection = True
            if reply.hangs_up:
                return
            self.send_response(reply.status)
            for key, value in {"Content-Type": "application/json", **reply.headers}.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(reply.body) if reply.length is None else reply.length))
            self.end_headers()
            if reply.drips:
                for letter in reply.body[:40]:
                    self.wfile.write(bytes([letter]))
                    time.sleep(DRIP_S)
            else:
                self.wfile.write(reply.body)

    def log_message(self, format: str, *args: object) -> None:
        """Keeps the test's output clean."""


@contextmanager
def proxy(upstream: str) -> Iterator[Proxy]:
    """Gives a proxy on a free port of the loopback that spoils nothing yet."""
    server_behind = httpx.Client(base_url=upstream, timeout=30, trust_env=False)
    handler = type("Handler", (_Handler,), {"upstream": server_behind})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    found = Proxy(f"http://127.0.0.1:{server.server_port}")
    handler.proxy = found  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        server_behind.close()
