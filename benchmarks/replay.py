"""A fleet and its troubles, replayed into a Prometheus as the samples that it would have scraped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from benchmarks import pages
from benchmarks.pages import GPUS, SCRAPE_MS, Line
from benchmarks.remote_write import STALE, Writer, count, encode_labels, encode_points
from benchmarks.troubles import BOARD, HOST, KUBERNETES, OURS, SERVING, Trouble
from exporter.metrics import GPU_WORKLOAD_INFO
from warehouse.model.slots import SlotRanges
from warehouse.model.time import MS_PER_MINUTE, MS_PER_SECOND, Window

# Nodes differ in their readings, and in when they are scraped: so many ways.
VARIANTS: Final = 5
# Pushes are in order of time to this length, half of what Prometheus takes.
_SLICE_MS: Final = 30 * MS_PER_MINUTE
_HOST_LATER_MS: Final = 4_000
# Seconds from a boot to the first scrape after it.
_BOOT_S: Final = 60.0


@dataclass(frozen=True)
class Farm:
    """Nodes of eight GPUs in slots that follow each other, in halls, with jobs on them; the resolver of a replay.

    Attributes:
        nodes: their names, in order of slots.
        hall: nodes in each hall.
        jobs: how many nodes each job holds, one after the other from the first node; the rest is idle or serves.
        serving: how many of the last nodes serve a model each.
    """

    nodes: tuple[str, ...]
    hall: int
    jobs: tuple[int, ...]
    serving: int

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Gives the number of each node."""
        return {name: number for number, name in enumerate(self.nodes)}

    @cached_property
    def job_nodes(self) -> dict[str, tuple[str, ...]]:
        """Gives the nodes of each job."""
        found, first = {}, 0
        for index, size in enumerate(self.jobs):
            found[str(4_000 + index)] = self.nodes[first : first + size]
            first += size
        return found

    @cached_property
    def job_of(self) -> dict[str, str]:
        """Gives the job of each node that has one."""
        return {node: job for job, nodes in self.job_nodes.items() for node in nodes}

    @cached_property
    def endpoints(self) -> dict[str, str]:
        """Gives the pod of each node that serves."""
        return {node: f"chat-{number}" for number, node in enumerate(self.nodes[len(self.nodes) - self.serving :])}

    def node(self, name: str) -> SlotRanges | None:
        """Gives the slots of a node."""
        number = self.numbers.get(name)
        return None if number is None else ((number * GPUS, (number + 1) * GPUS),)

    def gpu(self, node: str, position: int) -> SlotRanges | None:
        """Gives one slot of a node."""
        slots = self.node(node)
        if slots is None or not 0 <= position < GPUS:
            return None
        return ((slots[0][0] + position, slots[0][0] + position + 1),)

    def position(self, node: str, uuid: str) -> int | None:
        """Gives a GPU's position by its UUID."""
        return int(uuid.rpartition("-")[2]) if node in self.numbers and uuid.startswith(f"GPU-{node}-") else None

    def domains(self, node: str) -> tuple[str, ...]:
        """Gives the hall of a node."""
        return (f"hall:h{self.numbers[node] // self.hall}",) if node in self.numbers else ()

    def size(self, domain: str) -> int:
        """Gives the nodes of a hall."""
        first = int(domain.removeprefix("hall:h")) * self.hall
        return min(self.hall, len(self.nodes) - first)


@dataclass(frozen=True, slots=True)
class _Page:
    """A page that is the same on several nodes: its lines, when it is scraped, and what befalls it."""

    variant: int
    target: str
    busy: bool
    first: bool
    troubles: tuple[Trouble, ...] = ()

    def times(self, piece: Window) -> range:
        """Gives when it is scraped inside a piece."""
        later_ms = _HOST_LATER_MS if self.target == HOST else 0
        phase_ms = (self.variant * SCRAPE_MS // VARIANTS + later_ms) % SCRAPE_MS
        first_ms = -(-(piece.start_ms - phase_ms) // SCRAPE_MS) * SCRAPE_MS + phase_ms
        return range(first_ms, piece.end_ms, SCRAPE_MS)

    def lines(self, names: frozenset[str], start_ms: int) -> tuple[Line, ...]:
        """Gives its lines, `up` among them; `names` are those of the exporter that are replayed."""
        up = (Line("up"),)
        if self.target == OURS:
            return (*up, *(line for line in pages.ours(self.variant, self.busy) if line.name in names))
        if self.target == HOST:
            return (*up, *pages.host())
        if self.target == BOARD:
            return (*up, *pages.board())
        if self.target == SERVING:
            return (*up, *pages.serving(start_ms / MS_PER_SECOND))
        return (*up[: self.first], *pages.kubernetes())


Encoded = list[tuple[Line, bytes, int]]


@dataclass(slots=True)
class Replay:
    """What is replayed: a farm over a window, its troubles, and of the exporter's families those that are read.

    `series` counts those of one scrape of all, without what troubles bring.
    """

    farm: Farm
    window: Window
    troubles: Sequence[Trouble]
    names: frozenset[str]
    series: int = 0
    _written: dict[_Page, Encoded] = field(default_factory=dict)

    def write(self, writer: Writer) -> Iterator[Window]:
        """Writes all of it in order of time; yields each piece when it is written.

        Raises:
            RuntimeError: when the server does not take it.
        """
        befallen: dict[str, list[Trouble]] = {}
        for trouble in self.troubles:
            for node in trouble.nodes:
                befallen.setdefault(node, []).append(trouble)
        for start_ms in range(self.window.start_ms, self.window.end_ms, _SLICE_MS):
            piece = Window(start_ms, min(start_ms + _SLICE_MS, self.window.end_ms))
            self._written.clear()
            self.series = 0
            for number, node in enumerate(self.farm.nodes):
                serves = node in self.farm.endpoints
                busy = serves or node in self.farm.job_of
                for target in (OURS, HOST, BOARD, KUBERNETES, *((SERVING,) if serves else ())):
                    troubles = tuple(befallen.get(node, ()))
                    page = _Page(number % VARIANTS, target, busy, number == 0, troubles)
                    self._write(writer, piece, node, page)
            writer.flush()
            yield piece

    def _write(self, writer: Writer, piece: Window, node: str, page: _Page) -> None:
        for line, encoded, samples in self._encoded(piece, page):
            writer.add(encode_labels(self._labels(line, node, page.target)), encoded, samples)
            self.series += 1

    def _encoded(self, piece: Window, page: _Page) -> Encoded:
        found = self._written.get(page)
        if found is None:
            found = self._written[page] = self._troubled(piece, page) if page.troubles else self._healthy(piece, page)
        return found

    def _healthy(self, piece: Window, page: _Page) -> Encoded:
        times = page.times(piece)
        return [
            (line, encode_points([(at_ms, line.value(self._tick(at_ms))) for at_ms in times]), len(times))
            for line in page.lines(self.names, self.window.start_ms)
        ]

    def _troubled(self, piece: Window, page: _Page) -> Encoded:
        healthy = self._encoded(piece, replace(page, troubles=()))
        times = page.times(piece)
        around = range(times.start - SCRAPE_MS, piece.end_ms, SCRAPE_MS)
        seen = not any(t.blinds(at_ms) or t.silences(page.target, at_ms) for t in page.troubles for at_ms in around)
        booted = any(trouble.of.reboots and trouble.window.end_ms < piece.end_ms for trouble in page.troubles)
        found: Encoded = []
        for row in healthy:
            line = row[0]
            anew = booted and (_counts(line) or line.name == "node_boot_time_seconds")
            if seen and not anew and not any(trouble.touches(line) for trouble in page.troubles):
                found.append(row)
                continue
            points = list(self._line(line, page, times))
            found.append((line, encode_points(points), count(points)))
        if page.target == OURS:
            for trouble in page.troubles:
                for line in trouble.lines():
                    points = list(self._line(line, page, times, trouble))
                    found += [(line, encode_points(points), count(points))] if points else []
        return found

    def _labels(self, line: Line, node: str, target: str) -> list[tuple[str, str]]:
        found = {"__name__": line.name, "job": target, "node": node, "instance": f"{node}:{_PORTS[target]}"}
        if target == KUBERNETES:
            found["instance"] = "kube-state-metrics:8080"
            if line.name == "up":
                del found["node"]
        elif target == SERVING:
            found.update(pod=self.farm.endpoints[node], namespace="serving", model_name="llama")
            if line.name.startswith("gpuminutes_canary_"):
                found = {"__name__": line.name, "job": "canary", "endpoint": self.farm.endpoints[node]}
        for name, value in line.labels:
            found[name] = self.farm.job_of.get(node, "") if value == "held" else value
        if line.gpu is not None:
            found["uuid"] = f"GPU-{node}-{line.gpu}"
            found.setdefault("slot", pages.slots()[line.gpu])
        if line.name == GPU_WORKLOAD_INFO.name and node in self.farm.endpoints:
            found.update(kind="kubernetes", pod=self.farm.endpoints[node], namespace="serving", container="vllm")
        return list(found.items())

    def _line(self, line: Line, page: _Page, times: range, by: Trouble | None = None) -> Iterator[tuple[int, float]]:
        """Gives the samples of a line: where it ends while its target is scraped, the mark that it ended.

        Args:
            line: of the page, or brought by a trouble.
            page: with its troubles.
            times: of the scrapes.
            by: what brings the line.
        """
        last = self._said(line, page, times.start - SCRAPE_MS, by)
        for at_ms in times:
            if any(trouble.blinds(at_ms) for trouble in page.troubles):
                continue
            value = self._said(line, page, at_ms, by)
            if value is not None:
                yield at_ms, value
            elif last is not None:
                yield at_ms, STALE
            last = value

    def _said(self, line: Line, page: _Page, at_ms: int, by: Trouble | None) -> float | None:
        if at_ms < self.window.start_ms:
            return None
        silent = any(trouble.silences(page.target, at_ms) for trouble in page.troubles)
        if line.name == "up":
            return 0.0 if silent else 1.0
        if silent or (by is not None and not by.shows(line, at_ms)):
            return None
        boots = [t.window.end_ms for t in page.troubles if t.of.reboots and t.window.end_ms <= at_ms]
        boot_ms = max(boots, default=None)
        if by is not None:
            return None if boot_ms is not None and boot_ms > by.window.start_ms else line.value(0)
        value = self._changed(line, page, at_ms)
        if boot_ms is None or value is None:
            return value
        if line.name == "node_boot_time_seconds":
            return boot_ms // MS_PER_SECOND - _BOOT_S
        # Counters begin anew with a boot.
        return value - (self._changed(line, page, boot_ms) or 0.0) if _counts(line) else value

    def _changed(self, line: Line, page: _Page, at_ms: int) -> float | None:
        value: float | None = line.value(self._tick(at_ms))
        for trouble in page.troubles:
            value = trouble.change(line, value, at_ms)
        return value

    def _tick(self, at_ms: int) -> int:
        return (at_ms - self.window.start_ms) // SCRAPE_MS


_PORTS: Final[Mapping[str, int]] = {OURS: 9844, HOST: 9100, BOARD: 9290, KUBERNETES: 8080, SERVING: 8000}


def _counts(line: Line) -> bool:
    return line.rise != 0 or line.name.endswith("_total")
