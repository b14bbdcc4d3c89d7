"""Which loopback port each server takes."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable

HOST = "127.0.0.1"
EXPORTER_PORT = 9844
PROMETHEUS_PORT = 9090
DASHBOARD_PORT = 8501
_OFFSET = 10_000
_LAST_PORT = 65_535


class Ports:
    """Gives ports away, and keeps each from other demos until `release`.

    Between the choice of a port and the moment at which a server listens there, another demo could choose it too.
    On Linux a name that only one socket of the machine can have, and that ends with its process, says who was first.

    Args:
        say: prints a line.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._names: dict[int, socket.socket | None] = {}

    def choose(self, what: str, preferred: int) -> int:
        """Gives the preferred port, or else the one 10,000 above, or else any free one, and says so.

        Args:
            what: who will listen, for the message.
            preferred: the usual port.
        """
        if self._take(preferred):
            return preferred
        other = preferred + _OFFSET
        while other > _LAST_PORT or not self._take(other):
            with socket.socket() as probe:
                probe.bind((HOST, 0))
                other = int(probe.getsockname()[1])
        self._say(f"port {preferred} is in use; {what} listens on {other} instead")
        return other

    def release(self) -> None:
        """Lets go of all ports."""
        for name in self._names.values():
            if name is not None:
                name.close()
        self._names.clear()

    def _take(self, port: int) -> bool:
        if port in self._names or not _is_free(port):
            return False
        name = None
        if sys.platform == "linux":
            name = socket.socket(socket.AF_UNIX)
            try:
                name.bind(f"\0gpu-minutes-demo-port-{port}")
            except OSError:
                name.close()
                return False
        self._names[port] = name
        return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # A connection that has just ended does not hold a port; a listener does, with this option too.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
