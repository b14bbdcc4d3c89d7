"""A real Prometheus for tests: filled with samples of the past, then started on a free port of the loopback."""

from __future__ import annotations

import math
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

START_LIMIT_S = 20.0


@dataclass
class Signals:
    """Samples to be: families by name, series by labels, points as (milliseconds, value)."""

    families: dict[str, dict[str, list[tuple[int, float]]]] = field(default_factory=dict)

    def put(self, name: str, at_ms: int, value: float, /, **labels: str) -> None:
        """Adds one sample."""
        self.families.setdefault(name, {}).setdefault(_text(labels), []).append((at_ms, value))

    def points(self, name: str, **labels: str) -> list[tuple[int, float]]:
        """Gives the samples of one series so far."""
        return self.families.get(name, {}).get(_text(labels), [])

    def openmetrics(self) -> str:
        """Gives the text that promtool turns into blocks."""
        lines = []
        for name, family in sorted(self.families.items()):
            lines.append(f"# TYPE {name} gauge")
            for labels, points in sorted(family.items()):
                for at_ms, value in sorted(points):
                    number = "NaN" if math.isnan(value) else repr(float(value))
                    lines.append(f"{name}{{{labels}}} {number} {at_ms // 1000}.{at_ms % 1000:03d}")
        return "\n".join([*lines, "# EOF", ""])


def _text(labels: dict[str, str]) -> str:
    return ",".join(f'{key}="{_escaped(labels[key])}"' for key in sorted(labels))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


@contextmanager
def prometheus(folder: Path, signals: Signals, block_hours: int = 24) -> Iterator[str]:
    """Gives the address of a server that knows the signals and scrapes nothing.

    promtool reads the whole text once for each block, so that samples of months want long ones; yet a server lists the
    names of series by whole blocks.
    """
    text, data, config = folder / "signals.txt", folder / "data", folder / "prometheus.yml"
    text.write_text(signals.openmetrics())
    config.write_text("global: {scrape_interval: 15s}\n")
    fill = ["promtool", "tsdb", "create-blocks-from", "openmetrics", f"--max-block-duration={block_hours}h"]
    subprocess.run([*fill, str(text), str(data)], check=True, capture_output=True)
    port = free_port()
    command = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={data}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log.txt").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        address = f"http://127.0.0.1:{port}"
        _wait(address, server)
        yield address
    finally:
        server.terminate()
        server.wait(timeout=START_LIMIT_S)


def free_port() -> int:
    """Gives a port of the loopback on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait(address: str, server: subprocess.Popen[bytes]) -> None:
    give_up = time.monotonic() + START_LIMIT_S
    while time.monotonic() < give_up:
        assert server.poll() is None, "prometheus ended before it was ready"
        try:
            if httpx.get(f"{address}/-/ready", trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise AssertionError("prometheus did not become ready")
