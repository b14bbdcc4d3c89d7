"""Which loopback port each server takes."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection

HOST = "127.0.0.1"
EXPORTER_PORT = 9844
PROMETHEUS_PORT = 9090
DASHBOARD_PORT = 8501
_OFFSET = 10_000
_LAST_PORT = 65_535


def choose_port(what: str, preferred: int, taken: Collection[int], say: Callable[[str], None]) -> int:
    """Gives the preferred port, or else the one 10,000 above, or else any free one, and says so.

    Args:
        what: who will listen, for the message.
        preferred: the usual port.
        taken: ports already given away.
        say: prints a line.
    """
    if preferred not in taken and _is_free(preferred):
        return preferred
    other = preferred + _OFFSET
    if other > _LAST_PORT or other in taken or not _is_free(other):
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            other = int(probe.getsockname()[1])
    say(f"port {preferred} is in use; {what} listens on {other} instead")
    return other


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # A connection that has just ended does not hold a port; a listener does, with this option too.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
