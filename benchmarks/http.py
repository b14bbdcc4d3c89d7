"""A scrape as short as a client can make it, so that what is measured is the server."""

from __future__ import annotations

import socket
import time


def scrape(port: int, headers: str = "") -> tuple[float, bytes]:
    """One request on a connection of its own.

    Args:
        port: on loopback.
        headers: further header lines, each with its end of line.

    Returns:
        Seconds from connect to the last byte, and the body as it came.

    Raises:
        RuntimeError: the answer is not 200.
        OSError: nothing answers.
    """
    request = f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}Connection: close\r\n\r\n".encode()
    began_s = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(request)
        parts = []
        while part := connection.recv(1 << 20):
            parts.append(part)
    took_s = time.perf_counter() - began_s
    head, _, body = b"".join(parts).partition(b"\r\n\r\n")
    if b" 200 " not in head.split(b"\r\n", 1)[0]:
        raise RuntimeError(f"port {port} answered {head[:80]!r}")
    return took_s, body


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
