"""The HTTP side: routes to pages, on one address, with no more than a fixed number of scrapes at a time."""

from __future__ import annotations

import errno
import html
import logging
import socket
import socketserver
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from exporter import __version__
from exporter.errors import ConfigError
from exporter.page import render
from exporter.runner import Runner

MAX_REQUESTS = 40
_IDLE_S = 120.0
_QUEUE_S = 5.0  # half of Prometheus's default scrape timeout
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Response:
    """An answer, complete."""

    status: int
    content_type: str
    body: bytes


def text(status: int, message: str) -> Response:
    """A plain line."""
    return Response(status, "text/plain; charset=utf-8", message.encode() + b"\n")


def landing(title: str, lines: list[str], links: Mapping[str, str]) -> Response:
    """A landing page; `links` maps paths to their titles."""
    items = "".join(f'<li><a href="{html.escape(p)}">{html.escape(t)}</a></li>' for p, t in links.items())
    paragraphs = "".join(f"<p>{html.escape(line)}</p>" for line in lines)
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"</head><body><h1>{html.escape(title)}</h1>{paragraphs}<ul>{items}</ul></body></html>\n"
    )
    return Response(200, "text/html; charset=utf-8", page.encode())


class App(ABC):
    """Something that answers GET requests."""

    @abstractmethod
    def respond(self, path: str, headers: Mapping[str, str]) -> Response | None:
        """The answer to a GET of `path`; None closes the connection without one."""


class NodeApp(App):
    """The pages of one node.

    Args:
        runner: its collectors.
        telemetry_path: where the metrics are.
    """

    def __init__(self, runner: Runner, telemetry_path: str) -> None:
        self._runner = runner
        self._telemetry_path = telemetry_path

    def respond(self, path: str, headers: Mapping[str, str]) -> Response | None:
        """Metrics, liveness (never depends on the driver), readiness, landing page."""
        if path == self._telemetry_path:
            body, content_type = render(self._runner.samples(), headers.get("Accept") or "")
            return Response(200, content_type, body)
        if path == "/-/healthy":
            return text(200, "ok")
        if path == "/-/ready":
            reason = self._runner.unready()
            return text(503, reason) if reason else text(200, "ok")
        if path == "/":
            links = {self._telemetry_path: "Metrics", "/-/healthy": "Liveness", "/-/ready": "Readiness"}
            return landing("GPU Minutes exporter", [f"Version {__version__}."], links)
        return text(404, "not found")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # Prometheus keeps its connection
    server_version = f"gpu-minutes-exporter/{__version__}"
    sys_version = ""
    timeout = _IDLE_S
    wbufsize = -1  # header and body leave in one packet
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        if not self.server.slots.acquire(timeout=_QUEUE_S):
            self._send(text(503, f"more than {MAX_REQUESTS} requests at a time"))
            return
        try:
            response = self.server.app.respond(urlsplit(self.path).path, dict(self.headers.items()))
        except Exception:  # the edge: a defect costs one answer, not the server
            _log.exception("GET %s", self.path)
            response = text(500, "internal error, see the log")
        finally:
            self.server.slots.release()
        if response is None:
            self.close_connection = True
            return
        self._send(response)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _send(self, response: Response) -> None:
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    def log_message(self, format: str, *args: object) -> None:
        _log.debug("%s %s", self.client_address[0], format % args)


class Server(ThreadingHTTPServer):
    """Serves an `App`.

    Args:
        address: what `parse_listen_address` gives; port 0 takes a free one.
        app: answers the requests.

    Raises:
        ConfigError: the address cannot be listened on.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], app: App) -> None:
        self.app = app
        self.slots = threading.BoundedSemaphore(MAX_REQUESTS)
        host, port = address
        try:
            found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            self.address_family, _, _, _, where = found[0]
            super().__init__((str(where[0]), int(where[1])), _Handler)
        except OSError as exc:
            why = "address already in use" if exc.errno == errno.EADDRINUSE else exc.strerror or str(exc)
            raise ConfigError(f"cannot listen on {format_address(host, port)}: {why}") from exc

    def server_bind(self) -> None:
        """Binds without the reverse look-up of the standard server, which waits for a DNS that is down."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is not worth more than a debug line."""
        _log.debug("connection of %s broke", client_address, exc_info=True)

    @property
    def address(self) -> str:
        """Where it listens, port resolved."""
        return format_address(self.server_name, self.server_port)


def format_address(host: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 host."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_listen_address(address: str) -> tuple[str, int]:
    """Splits `HOST:PORT`, `[IPV6]:PORT` or `:PORT` (every interface).

    Raises:
        ConfigError: it is none of these.
    """
    host, colon, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"listen address {address!r} is not HOST:PORT")
    if bracketed:
        host = host[1:-1]
    elif ":" in host:
        raise ConfigError(f"listen address {address!r}: put an IPv6 address in brackets")
    return host, int(port)
