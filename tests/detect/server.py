"""Real servers of series for tests, on free ports of the loopback: a Prometheus and a VictoriaMetrics."""

from __future__ import annotations

import math
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.detect.remote_write import STALE, TimeSeries, in_slices, is_stale, send

START_LIMIT_S = 20.0


@dataclass
class Signals:
    """Samples to be: families by name, series by labels, points as (milliseconds, value)."""

    families: dict[str, dict[str, list[tuple[int, float]]]] = field(default_factory=dict)
    # promtool reads all of the text once for each block; but a server lists the names of series by whole blocks.
    block_hours: int = 24
    labels: dict[str, dict[str, str]] = field(default_factory=dict)
    marked: bool = False

    def put(self, name: str, at_ms: int, value: float, /, **labels: str) -> None:
        """Adds one sample; `STALE` as its value says that the series ended here."""
        text = _text(labels)
        self.labels[text] = labels
        self.families.setdefault(name, {}).setdefault(text, []).append((at_ms, value))
        self.marked |= is_stale(value)

    def end(self, name: str, at_ms: int, /, **labels: str) -> None:
        """Adds the stale marker that a server writes when a target or one of its series is gone."""
        self.put(name, at_ms, STALE, **labels)

    def points(self, name: str, **labels: str) -> list[tuple[int, float]]:
        """Gives the samples of one series so far."""
        return self.families.get(name, {}).get(_text(labels), [])

    def series(self) -> Iterator[TimeSeries]:
        """Gives every series with its name among its labels, its points in order of time."""
        for name, family in sorted(self.families.items()):
            for text, points in sorted(family.items()):
                yield {"__name__": name, **self.labels[text]}, sorted(points, key=lambda point: point[0])

    def openmetrics(self, *, in_ms: bool = False) -> str:
        """Gives the text that promtool turns into blocks; it has no word for a stale marker.

        With `in_ms` times are whole milliseconds, as VictoriaMetrics reads them.
        """
        assert not self.marked
        lines = []
        for name, family in sorted(self.families.items()):
            lines.append(f"# TYPE {name} gauge")
            for labels, points in sorted(family.items()):
                for at_ms, value in sorted(points):
                    number = "NaN" if math.isnan(value) else repr(float(value))
                    at = at_ms if in_ms else f"{at_ms // 1000}.{at_ms % 1000:03d}"
                    lines.append(f"{name}{{{labels}}} {number} {at}")
        return "\n".join([*lines, "# EOF", ""])


def _text(labels: dict[str, str]) -> str:
    return ",".join(f'{key}="{_escaped(labels[key])}"' for key in sorted(labels))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


# A server filled with signals: gives its address.
Server = Callable[[Path, Signals], AbstractContextManager[str]]


@contextmanager
def prometheus(folder: Path, signals: Signals, *options: str) -> Iterator[str]:
    """Gives the address of a Prometheus that knows the signals and scrapes nothing."""
    data, config = folder / "data", folder / "prometheus.yml"
    config.write_text("global: {scrape_interval: 15s}\n")
    if not signals.marked:
        _fill(folder, data, signals)
    command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={data}"]
    command += ["--storage.tsdb.retention.time=100y", "--web.enable-remote-write-receiver", *options]
    with started(folder, command, "--web.listen-address=", "/-/ready") as address:
        if signals.marked:
            for piece in in_slices(signals.series()):
                send(f"{address}/api/v1/write", piece)
        yield address


@contextmanager
def victoria(folder: Path, signals: Signals, *options: str) -> Iterator[str]:
    """Gives the address of a VictoriaMetrics that knows the signals and scrapes nothing."""
    command = ["victoria-metrics", f"-storageDataPath={folder / 'data'}", "-retentionPeriod=100y", *options]
    command.append("-search.maxQueryLen=256KB")  # as docs/prometheus.md asks
    with started(folder, command, "-httpListenAddr=", "/health") as address:
        if signals.marked:
            for piece in in_slices(signals.series()):
                send(f"{address}/api/v1/write", piece)
        else:
            text = signals.openmetrics(in_ms=True).encode()
            httpx.post(
                f"{address}/api/v1/import/prometheus", content=text, trust_env=False, timeout=120
            ).raise_for_status()
        # What was just written is searchable only from here on.
        httpx.get(f"{address}/internal/force_flush", trust_env=False).raise_for_status()
        yield address


SERVERS: dict[str, Server] = {"prometheus": prometheus, "victoria": victoria}


def _fill(folder: Path, data: Path, signals: Signals) -> None:
    """Writes blocks before the server starts: it need not be in order of time then."""
    text = folder / "signals.txt"
    text.write_text(signals.openmetrics())
    fill = ["promtool", "tsdb", "create-blocks-from", "openmetrics", f"--max-block-duration={signals.block_hours}h"]
    subprocess.run([*fill, str(text), str(data)], check=True, capture_output=True)


@contextmanager
def started(folder: Path, command: list[str], listen: str, ready: str, port: int | None = None) -> Iterator[str]:
    """Runs a server on a (free) port of the loopback until the block ends; gives its address once it is ready."""
    port = free_port() if port is None else port
    with (folder / "log.txt").open("w") as log:
        server = subprocess.Popen([*command, f"{listen}127.0.0.1:{port}"], stdout=log, stderr=subprocess.STDOUT)
    try:
        address = f"http://127.0.0.1:{port}"
        _wait(address + ready, server)
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


def _wait(url: str, server: subprocess.Popen[bytes]) -> None:
    give_up = time.monotonic() + START_LIMIT_S
    while time.monotonic() < give_up:
        assert server.poll() is None, f"{url}: the server ended before it was ready"
        try:
            if httpx.get(url, trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"{url}: the server did not become ready")
