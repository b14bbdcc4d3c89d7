"""From the file's `tls_server_config` to Python's TLS."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import ssl
from collections.abc import Iterator
from pathlib import Path

from exporter.errors import ConfigError
from exporter.web.config import Tls

_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_SAN_KINDS = ("DNS", "IP Address", "email", "URI")  # as ssl.SSLSocket.getpeercert writes them
_VERIFY = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}


def make_context(tls: Tls, where: Path) -> ssl.SSLContext:
    """A context for the server side; reads certificate, key and client CA.

    Raises:
        ConfigError: one of them cannot be read or does not fit; `where` is the file that names them.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[tls.min_version]
    context.maximum_version = _VERSIONS[tls.max_version]
    context.options |= ssl.OP_NO_RENEGOTIATION
    if not tls.server_preference:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_alpn_protocols(["http/1.1"])
    if tls.ciphers:
        context.set_ciphers(":".join(tls.ciphers))
    if tls.curve:
        context.set_ecdh_curve(tls.curve)
    for name in tls.files:
        _check_readable(name, where)
    with _as_path(tls.cert) as cert, _as_path(tls.key) as key:
        try:
            # Without a password function, OpenSSL would ask on the terminal for that of an encrypted key.
            context.load_cert_chain(cert, key, password=lambda: "")
        except (ssl.SSLError, ValueError, OSError) as exc:
            parts = f"certificate {_name(tls.cert)} and key {_name(tls.key)}"
            raise ConfigError(f"{where}: {parts} cannot be used: {_why(exc)}") from exc
    if tls.client_ca is not None:
        context.verify_mode = _VERIFY[tls.client_auth]
        try:
            text = tls.client_ca.read_text("ascii", "replace") if isinstance(tls.client_ca, Path) else tls.client_ca
            context.load_verify_locations(cadata=text)
        except (ssl.SSLError, OSError) as exc:
            raise ConfigError(f"{where}: client CA {_name(tls.client_ca)} cannot be used: {_why(exc)}") from exc
    return context


def allowed(connection: ssl.SSLSocket, allowed_sans: frozenset[str]) -> bool:
    """Whether the verified certificate of a client bears one of these names; any client when there are none."""
    if not allowed_sans:
        return True
    certificate = connection.getpeercert() or {}
    wanted = {_normal(name) for name in allowed_sans}
    names = [name for name in certificate.get("subjectAltName", ()) if isinstance(name, tuple)]
    return any(kind in _SAN_KINDS and _normal(str(name)) in wanted for kind, name in names)


def _normal(name: str) -> str:
    """One spelling of an IP address: OpenSSL writes IPv6 in full."""
    try:
        return str(ipaddress.ip_address(name.strip()))
    except ValueError:
        return name


def _check_readable(path: Path, where: Path) -> None:
    try:
        path.open("rb").close()
    except OSError as exc:
        raise ConfigError(f"{where}: {path} cannot be read: {exc.strerror}") from exc


@contextlib.contextmanager
def _as_path(part: Path | str) -> Iterator[str]:
    """The path of a file, or that of a file in memory that holds this text: Python takes keys by path alone."""
    if isinstance(part, Path):
        yield str(part)
        return
    number = os.memfd_create("gpu-minutes")
    try:
        with open(number, "wb", closefd=False) as file:
            file.write(part.encode())
        yield f"/proc/self/fd/{number}"
    finally:
        os.close(number)


def _name(part: Path | str) -> str:
    return str(part) if isinstance(part, Path) else "in the file"


def _why(exc: Exception) -> str:
    """OpenSSL's reason without its place in the source."""
    if isinstance(exc, ssl.SSLError) and exc.reason:
        return exc.reason.lower().replace("_", " ")
    return " ".join(str(exc).split())
