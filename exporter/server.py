"""The HTTP side: routes to pages, behind TLS and passwords where asked for, with no more than so many requests at a
time."""

from __future__ import annotations

import errno
import gzip
import ipaddress
import logging
import socket
import socketserver
import ssl
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from exporter import __version__
from exporter.config import Option
from exporter.errors import ConfigError
from exporter.page import PageWriter
from exporter.runner import Runner
from exporter.web.formats import gzip_wanted
from exporter.web.landing import CollectorState, Landing, landing_page
from exporter.web.live import Guard, LiveGuard
from exporter.web.tls import allowed

MAX_REQUESTS = 40
MAX_CONNECTIONS = 256  # a thread each; a Prometheus keeps one
_IDLE_S = 120.0
_HANDSHAKE_S = 10.0
_QUEUE_S = 5.0  # half of Prometheus's default scrape timeout
_SPARE_S = 0.5  # for the answer itself, out of the time that the scraper names
_MOST_QUEUE_S = 60.0
_GZIP_FROM_BYTES = 1000  # below one packet there is nothing to save
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Response:
    """An answer, complete; `headers` are those beside the type and the length."""

    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


def text(status: int, message: str, *headers: tuple[str, str]) -> Response:
    """A plain line."""
    return Response(status, "text/plain; charset=utf-8", message.encode() + b"\n", headers)


def landing(page: Landing) -> Response:
    """A landing page."""
    return Response(200, "text/html; charset=utf-8", landing_page(page).encode())


class App(ABC):
    """Something that answers GET requests."""

    @abstractmethod
    def respond(self, path: str, headers: Mapping[str, str]) -> Response | None:
        """The answer to a GET of `path`; None closes the connection without one. Header names are in lower case."""


class NodeApp(App):
    """The pages of one node.

    Args:
        runner: its collectors.
        telemetry_path: where the metrics are.
        off: names of the collectors that do not run.
    """

    def __init__(self, runner: Runner, telemetry_path: str, off: Sequence[str] = ()) -> None:
        self._runner = runner
        self._telemetry_path = telemetry_path
        self._writer = PageWriter()
        self._off = tuple(CollectorState(name, "off") for name in off)

    def respond(self, path: str, headers: Mapping[str, str]) -> Response | None:
        """Metrics, liveness (never depends on the driver), readiness, landing page."""
        if path == self._telemetry_path:
            body, content_type = self._writer.render(self._runner.samples(), headers.get("accept", ""))
            return Response(200, content_type, body)
        if path == "/-/healthy":
            return text(200, "ok")
        if path == "/-/ready":
            reason = self._runner.unready()
            return text(503, reason) if reason else text(200, "ok")
        if path == "/":
            links = {self._telemetry_path: "Metrics", "/-/healthy": "Liveness", "/-/ready": "Readiness"}
            about = (f"Says for Prometheus what the GPUs of this node say. Version {__version__}.",)
            states = sorted((*self._runner.states(), *self._off), key=lambda state: state.name)
            reason = self._runner.unready()
            note = f"Not ready: {reason}." if reason else ""
            return landing(Landing("GPU Minutes exporter", about, links, note, states))
        return text(404, "not found")


class Limits:
    """How many may be served at a time, whichever address they come by."""

    def __init__(self, requests: int = MAX_REQUESTS, connections: int = MAX_CONNECTIONS) -> None:
        self.most_requests = requests
        self.requests = threading.BoundedSemaphore(requests)
        self.connections = threading.BoundedSemaphore(connections)


def queue_s(scrape_timeout: str) -> float:
    """How long a request may wait for its turn.

    Args:
        scrape_timeout: the header X-Prometheus-Scrape-Timeout-Seconds; one that makes no sense is ignored.
    """
    try:
        timeout_s = float(scrape_timeout)
    except ValueError:
        return _QUEUE_S
    return min(_MOST_QUEUE_S, max(0.0, timeout_s - _SPARE_S)) if 0.0 < timeout_s < float("inf") else _QUEUE_S


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # Prometheus keeps its connection
    server_version = f"gpu-minutes-exporter/{__version__}"
    sys_version = ""
    timeout = _IDLE_S
    wbufsize = -1  # header and body leave in one packet
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        guard = self.server.guard.current()
        names = {name.lower() for name in self.headers}
        headers = {name: ", ".join(self.headers.get_all(name, [])) for name in names}
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            self.close_connection = True  # a body is not read, and must not be taken for the next request
        response = self._refusal(guard, headers) or self._page(headers)
        if response is None:
            self.close_connection = True
            return
        self._send(response, guard, headers.get("accept-encoding", ""))

    # Methods that exist and are not for us; one that does not exist is 501, by the base class.
    do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = do_GET

    def _refusal(self, guard: Guard, headers: Mapping[str, str]) -> Response | None:
        if not guard.bucket.take(time.monotonic()):
            return text(429, "too many requests")
        if not guard.auth.allows(headers.get("authorization", "")):
            realm = 'Basic realm="gpu-minutes-exporter", charset="UTF-8"'
            return text(401, "a user and a password are needed", ("WWW-Authenticate", realm))
        if self.command not in ("GET", "HEAD"):
            return text(405, "only GET and HEAD", ("Allow", "GET, HEAD"))
        return None

    def _page(self, headers: Mapping[str, str]) -> Response | None:
        try:
            path = urlsplit(self.path).path
        except ValueError:
            return text(400, "the request's target is no path")
        limits = self.server.limits
        if not limits.requests.acquire(timeout=queue_s(headers.get("x-prometheus-scrape-timeout-seconds", ""))):
            return text(503, f"more than {limits.most_requests} requests at a time")
        try:
            return self.server.app.respond(path, headers)
        except Exception:  # the edge: a defect costs one answer, not the server
            _log.exception("GET %s", self.path)
            return text(500, "internal error, see the log")
        finally:
            limits.requests.release()

    def _send(self, response: Response, guard: Guard, accept_encoding: str) -> None:
        body = response.body
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        if len(body) >= _GZIP_FROM_BYTES:
            self.send_header("Vary", "Accept, Accept-Encoding")
            if gzip_wanted(accept_encoding):
                body = gzip.compress(body, compresslevel=6, mtime=0)
                self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (*response.headers, *guard.headers):
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        _log.debug("%s %s", self.client_address[0], format % args)


class Server(ThreadingHTTPServer):
    """Serves an `App` on one address.

    Args:
        address: what `parse_listen_address` gives; port 0 takes a free one.
        app: answers the requests.
        guard: TLS, passwords and headers.
        limits: shared by all addresses.

    Raises:
        ConfigError: the address cannot be listened on.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], app: App, guard: LiveGuard, limits: Limits) -> None:
        self.app = app
        self.guard = guard
        self.limits = limits
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

    def process_request(self, request: Any, client_address: Any) -> None:
        """Gives the connection a thread, or closes it when there are too many."""
        if not self.limits.connections.acquire(blocking=False):
            _log.warning("more than %d connections; one is closed", MAX_CONNECTIONS)
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread to be had
            self.limits.connections.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """One connection, from the handshake to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.limits.connections.release()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Shakes hands first where TLS is asked for; in the connection's own thread, so that nobody else waits."""
        guard = self.guard.current()
        if guard.context is None:
            super().finish_request(request, client_address)
            return
        request.settimeout(_HANDSHAKE_S)
        try:
            secured = guard.context.wrap_socket(request, server_side=True)
        except ssl.SSLEOFError:  # one who only looks whether the port is open
            return
        except ssl.SSLError as exc:
            _log.info("no TLS with %s: %s", client_address[0], exc.reason or exc)
            return
        with secured:
            if allowed(secured, guard.allowed_sans):
                super().finish_request(secured, client_address)
            else:
                _log.info("no TLS with %s: its certificate has none of client_allowed_sans", client_address[0])

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is not worth more than a debug line."""
        _log.debug("connection of %s broke", client_address, exc_info=True)

    @property
    def address(self) -> str:
        """Where it listens, port resolved."""
        return format_address(self.server_name, self.server_port)

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return ipaddress.ip_address(self.server_name.partition("%")[0]).is_loopback


def format_address(host: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 host."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_listen_address(address: str) -> tuple[str, int]:
    """Splits `HOST:PORT`, `[IPV6]:PORT` or `:PORT` (every interface).

    Raises:
        ValueError: it is none of these.
    """
    host, colon, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{address!r} is not HOST:PORT")
    if bracketed:
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{address!r}: put an IPv6 address in brackets")
    return host, int(port)


def _parse_addresses(value: str) -> tuple[str, ...]:
    addresses = tuple(part.strip() for part in value.split(","))
    for address in addresses:
        parse_listen_address(address)
    return addresses


def _parse_path(value: str) -> str:
    if not value.startswith("/") or value == "/" or value.startswith("/-/"):
        raise ValueError(f"{value!r} must begin with / and name a page that is not taken")
    if not value.isascii() or not value.isprintable() or set(value) & set(" ?#"):
        raise ValueError(f"{value!r} is not a path")
    return value


LISTEN: Option[tuple[str, ...]] = Option(
    "web.listen-address",
    ("127.0.0.1:9844",),
    _parse_addresses,
    "where it listens; :PORT is every interface",
    "HOST:PORT",
    many=True,
)
TELEMETRY_PATH = Option("web.telemetry-path", "/metrics", _parse_path, "where the metrics are", "PATH")
