"""The dashboard as a user starts it, in a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

_START_SECONDS = 60


def free_port() -> int:
    """Gives a port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(url: str, *flags: str, host: str = "127.0.0.1") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Gives the process and its address once it answers."""
    port = free_port()
    command = ["from warehouse.cli import main; main()", "dashboard", "--listen", f"{host}:{port}", *flags]
    process = subprocess.Popen(
        [sys.executable, "-c", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"GPU_MINUTES_DATABASE_URL": url, "PYTHONUNBUFFERED": "1"},
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _await(process, f"{address}/_stcore/health")
        yield process, address
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=30)


def _await(process: subprocess.Popen[str], health: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise AssertionError(f"it ended with {process.returncode}: {process.communicate()[1]}")
        try:
            with urllib.request.urlopen(health, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    raise AssertionError("it does not answer")
