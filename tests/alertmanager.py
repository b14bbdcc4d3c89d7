"""A real Alertmanager for tests, on the loopback; started, restarted and stopped by whoever asked for it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.servers import free_port, wait_for

BINARY = "prometheus-alertmanager"
_STOP_SECONDS = 20


class Alertmanager:
    """One Alertmanager; its notifications and silences outlive a restart, as its folder does.

    Args:
        folder: where configuration and data lie.
        config: the text of alertmanager.yml.
    """

    def __init__(self, folder: Path, config: str) -> None:
        self._folder = folder
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{self._port}"
        (folder / "alertmanager.yml").write_text(config)

    def start(self) -> None:
        """Starts it and waits until it is ready."""
        command = [
            BINARY,
            f"--config.file={self._folder / 'alertmanager.yml'}",
            f"--storage.path={self._folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
            "--cluster.listen-address=",  # empty, or it would look for others beyond the loopback
            "--log.level=debug",
        ]
        with (self._folder / "alertmanager.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        wait_for(f"{self.url}/-/ready")

    def stop(self) -> None:
        """Ends it in order."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(_STOP_SECONDS)
            self._process = None

    def log(self) -> str:
        return (self._folder / "alertmanager.log").read_text(errors="replace")

    def post(self, *alerts: Mapping[str, Any]) -> None:
        """Tells it of alerts, as Prometheus does."""
        httpx.post(f"{self.url}/api/v2/alerts", json=list(alerts), trust_env=False).raise_for_status()

    def silence(self, starts: str, ends: str, **labels: str) -> str:
        """Silences what has these labels; gives the silence's id."""
        matchers = [{"name": name, "value": value, "isRegex": False} for name, value in labels.items()]
        body = {"matchers": matchers, "startsAt": starts, "endsAt": ends, "createdBy": "test", "comment": "test"}
        answer = httpx.post(f"{self.url}/api/v2/silences", json=body, trust_env=False)
        answer.raise_for_status()
        return str(json.loads(answer.content)["silenceID"])

    def unsilence(self, silence: str) -> None:
        httpx.delete(f"{self.url}/api/v2/silence/{silence}", trust_env=False).raise_for_status()


@contextmanager
def alertmanager(folder: Path, config: str) -> Iterator[Alertmanager]:
    """Runs one for the length of the block."""
    server = Alertmanager(folder, config)
    server.start()
    try:
        yield server
    finally:
        server.stop()
