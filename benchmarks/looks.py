"""Looks at a replay through the product's own `observe`, and what each look cost: both processes, each question."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from benchmarks import processes
from warehouse.detect import observe as observing
from warehouse.detect.hits import Answer
from warehouse.detect.observe import observe, urgent
from warehouse.detect.site import Site
from warehouse.detect.words import Finding, Resolver, Settings
from warehouse.evidence.prometheus import PrometheusClient, Series
from warehouse.model.cause import Detector
from warehouse.model.evidence import Evidence
from warehouse.model.time import Window

T = TypeVar("T")

# The look itself: names, scrapes and their holes.
NOBODY = "(the look itself)"


@dataclass(slots=True)
class Cost:
    """What something cost: how often, seconds on the clock and of the server's CPU."""

    times: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0

    def add(self, wall_s: float, cpu_s: float) -> None:
        """Adds one more time."""
        self.times += 1
        self.wall_s += wall_s
        self.cpu_s += cpu_s


class MeteredClient(PrometheusClient):
    """A client that notes what each question costs, by whom it is asked and in what words.

    Args:
        base_url: address of the server.
        timeout_s: seconds that one request may take.
        server: its process.
    """

    def __init__(self, base_url: str, timeout_s: float, server: int) -> None:
        super().__init__(base_url, timeout_s)
        self.asking = NOBODY
        self.by_detector: dict[str, Cost] = {}
        self.by_words: dict[tuple[str, str], Cost] = {}
        self._server = server

    @property
    def questions(self) -> int:
        """Gives how many were asked."""
        return sum(cost.times for cost in self.by_detector.values())

    def query(self, expr: str, at_ms: int | None = None) -> list[Series]:
        """As the client's own, metered."""
        return self._metered("instant", expr, lambda: super(MeteredClient, self).query(expr, at_ms))

    def query_range(self, expr: str, window: Window, step_ms: int, *more: int) -> list[Series]:
        """As the client's own, metered."""
        return self._metered(
            "range", expr, lambda: super(MeteredClient, self).query_range(expr, window, step_ms, *more)
        )

    def samples(self, selector: str, window: Window) -> list[Series]:
        """As the client's own, metered."""
        return self._metered("samples", selector, lambda: super(MeteredClient, self).samples(selector, window))

    def names(self, window: Window) -> frozenset[str]:
        """As the client's own, metered."""
        return self._metered("names", "", lambda: super(MeteredClient, self).names(window))

    def _metered(self, kind: str, expr: str, ask: Callable[[], T]) -> T:
        wall, cpu = time.perf_counter(), processes.rest_cpu_s([self._server])
        answer = ask()
        took = time.perf_counter() - wall, processes.rest_cpu_s([self._server]) - cpu
        self.by_detector.setdefault(self.asking, Cost()).add(*took)
        self.by_words.setdefault((self.asking, f"{kind}: {_words(expr)}"), Cost()).add(*took)
        return answer


def _words(expr: str) -> str:
    """Gives an expression without what differs from look to look: lengths and names of those who are asked alone."""
    return re.sub(r'=~"[^"]{60,}"', '=~"..."', re.sub(r"\[\d+m?s\]", "[.]", expr))


@contextmanager
def attributed(client: MeteredClient) -> Iterator[None]:
    """Has every question noted under the detector that asks it."""
    ask = observing.ask

    def named(detector: Detector, *more: Any) -> Answer:
        client.asking = detector.key
        return ask(detector, *more)

    observing.ask = named  # type: ignore[assignment]
    try:
        yield
    finally:
        observing.ask = ask
        client.asking = NOBODY


@dataclass(slots=True)
class Looked:
    """What looking at a stretch gave and cost; seconds of CPU of the server and of this process."""

    evidence: list[Evidence] = field(default_factory=list)
    findings: set[Finding] = field(default_factory=set)
    blind: frozenset[str] = frozenset()
    walls_s: list[float] = field(default_factory=list)
    questions: list[int] = field(default_factory=list)
    server_s: float = 0.0
    own_s: float = 0.0


def look(
    windows: Iterable[Window | tuple[Window, Set[str]]],
    client: PrometheusClient,
    resolver: Resolver,
    settings: Settings,
    server: int = 0,
    known: Iterable[Evidence] = (),
) -> Looked:
    """Observes windows one after the other, keeping what is told by its key as a store does.

    Args:
        windows: in order of time; beside one, the keys of the detectors that look at it alone.
        client: the signals.
        resolver: the fleet.
        settings: how it is scraped.
        server: the process of the signals, to be metered; 0 for none.
        known: evidence of earlier looks.
    """
    found, store = Looked(), {item.key: item for item in known}
    servers = [server] if server else []
    server_s, own_s = processes.cpu_s(servers), time.process_time()
    for one in windows:
        window, only = one if isinstance(one, tuple) else (one, None)
        asked = client.questions if isinstance(client, MeteredClient) else 0
        wall = time.perf_counter()
        reaching = [item for item in store.values() if item.end_ms is None or item.end_ms > window.start_ms]
        seen = observe(window, client, resolver, reaching, settings, only)
        store.update({item.key: item for item in seen.evidence})
        found.walls_s.append(time.perf_counter() - wall)
        if isinstance(client, MeteredClient):
            client.asking = NOBODY
            found.questions.append(client.questions - asked)
        found.findings |= set(seen.findings)
        if only is None:
            found.blind = seen.blind
    found.server_s, found.own_s = processes.cpu_s(servers) - server_s, time.process_time() - own_s
    found.evidence = sorted(store.values(), key=lambda item: (item.start_ms, item.key))
    return found


def as_the_worker_does(window: Window, step_ms: int, whole_ms: int) -> Iterator[Window | tuple[Window, Set[str]]]:
    """Gives the looks of a worker: every detector now and then, the urgent ones at every step in between."""
    read_ms = window.start_ms
    for end_ms in range(window.start_ms + step_ms, window.end_ms + 1, step_ms):
        if end_ms - read_ms >= whole_ms or end_ms == window.end_ms:
            yield Window(read_ms, end_ms)
            read_ms = end_ms
        else:
            yield Window(read_ms, end_ms), urgent(Site())


def cut(window: Window, step_ms: int) -> Iterator[Window]:
    """Gives a window in pieces of this length."""
    for start_ms in range(window.start_ms, window.end_ms, step_ms):
        yield Window(start_ms, min(start_ms + step_ms, window.end_ms))


def canonical(evidence: Sequence[Evidence]) -> list[str]:
    """Gives evidence as text, one line each, in an order of its own: equal evidence gives equal bytes."""
    return sorted(
        json.dumps(
            {
                "key": item.key,
                "span": [item.start_ms, item.end_ms],
                "earliest": [item.earliest_start_ms, item.earliest_end_ms],
                "scope": item.scope,
                "slots": item.slots,
                "state": str(item.state),
                "cause": item.cause,
                "lost": item.lost_ppm,
                "detail": item.detail,
                "job": item.job,
                "basis": item.basis,
                "source": item.source,
            },
            sort_keys=True,
        )
        for item in evidence
    )


def digest(evidence: Sequence[Evidence]) -> str:
    """Gives the SHA-256 of `canonical`."""
    return hashlib.sha256("\n".join(canonical(evidence)).encode()).hexdigest()
