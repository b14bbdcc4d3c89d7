"""What the commands that listen share: reading an address, and taking it before anything is promised."""

from __future__ import annotations

import ipaddress
import socket

from warehouse.errors import BadInput


def address(listen: str, default: str) -> tuple[str, int]:
    """Reads HOST:PORT; an IPv6 host stands in brackets.

    Raises:
        BadInput: for anything else, with the default as an example.
    """
    host, colon, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not (port.isascii() and port.isdecimal()) or not 0 < int(port) < 65_536:
        raise BadInput(f"--listen: '{listen}' is no HOST:PORT such as {default}")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Tells whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def shown(host: str, port: int) -> str:
    """Gives an address as it stands in a URL."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def bound(host: str, port: int) -> socket.socket:
    """Takes an address; whoever gets the socket listens on it.

    Raises:
        BadInput: where it is taken, or not of this machine.
    """
    try:
        family, kind, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        taken = socket.socket(family, kind)
        try:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(where)
        except OSError:
            taken.close()
            raise
    except OSError as exc:
        raise BadInput(f"--listen: cannot listen on {shown(host, port)}: {exc.strerror}") from exc
    return taken
