"""Certificates for tests, made by the openssl command; every one lives for a day."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

LOOPBACK = "IP:127.0.0.1,DNS:localhost"


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as PEM files."""

    cert: Path
    key: Path


class Authority:
    """A certificate authority of its own.

    Args:
        folder: where its files go.
        name: of the authority, and of its files.
    """

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._pair = self._make(name, "-addext", "basicConstraints=critical,CA:TRUE")

    @property
    def cert(self) -> Path:
        """Its own certificate."""
        return self._pair.cert

    def issue(self, name: str, sans: str = LOOPBACK, usage: str = "serverAuth") -> Pair:
        """A certificate that it signs.

        Args:
            name: of the holder, and of the files.
            sans: its names, as openssl writes them.
            usage: "serverAuth" or "clientAuth".
        """
        signed = ("-CA", str(self._pair.cert), "-CAkey", str(self._pair.key))
        names = ("-addext", f"subjectAltName={sans}", "-addext", f"extendedKeyUsage={usage}")
        return self._make(name, *signed, *names, "-addext", "basicConstraints=critical,CA:FALSE")

    def _make(self, name: str, *options: str) -> Pair:
        pair = Pair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        command += ["-days", "1", "-subj", f"/CN={name}", "-keyout", str(pair.key), "-out", str(pair.cert), *options]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        return pair
