"""gpu-minutes run: observe, group, attribute, book; forever or once."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click
import psycopg
from prometheus_client import start_http_server
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from warehouse import clock, config, worker
from warehouse.alerts.poll import AlertmanagerClient, AlertmanagerError, poll
from warehouse.cli import edge, listening
from warehouse.detect.observe import catalogue, urgent
from warehouse.detect.site_file import read_site
from warehouse.detect.words import SOURCE, Settings
from warehouse.errors import BadInput, Unreachable
from warehouse.evidence.access import Access
from warehouse.evidence.prometheus import PrometheusClient, PrometheusError
from warehouse.model.time import MS_PER_HOUR, MS_PER_SECOND, Window, format_instant
from warehouse.store.bell import Bell
from warehouse.worker import Step
from warehouse.worker_metrics import DATABASE, WorkerMetrics

_TIMEOUT_SECONDS = 30.0


@click.command("run")
@click.option("--once", is_flag=True, help="Catch up with the present (or --until), then end.")
@click.option("--again", is_flag=True, help="Look once more at the time from --since to --until, then end.")
@click.option("--until", metavar="T", help="Look no further than here.")
@click.option("--since", metavar="T", help="Where to begin when nothing was read yet (default: one hour ago).")
@click.option("--every", type=click.FloatRange(min=0.1), default=60.0, show_default=True, help="Seconds between looks.")
@click.option(
    "--whole-every",
    type=click.FloatRange(min=0),
    default=300.0,
    show_default=True,
    help="Seconds between looks with every detector; in between, those look that should wake somebody.",
)
@click.option(
    "--book-every",
    type=click.FloatRange(min=0),
    default=300.0,
    show_default=True,
    help="Seconds after which the booking follows where nothing changed; what changed is booked at once.",
)
@click.option(
    "--scrape-interval", type=click.FloatRange(min=1), default=15.0, show_default=True, help="Seconds of the scrapes."
)
@click.option("--listen", metavar="HOST:PORT", help="Serve the worker's own metrics here, such as 127.0.0.1:9482.")
@click.option(
    "--alertmanager",
    metavar="URL",
    help="Ask here for alerts that are silenced, inhibited or were left out (default: GPU_MINUTES_ALERTMANAGER_URL).",
)
@click.option("--receiver", metavar="NAME", help="Its receiver that delivers here; without one, all alerts are listed.")
@click.option("--site-file", metavar="FILE", help="Labels, jobs and thresholds (default: GPU_MINUTES_SITE_FILE).")
def COMMAND(
    once: bool, again: bool, until: str | None, since: str | None, every: float, whole_every: float, book_every: float,
    scrape_interval: float, listen: str | None, site_file: str | None, alertmanager: str | None, receiver: str | None,
) -> None:  # fmt: skip
    """Watches the signals in Prometheus (GPU_MINUTES_PROMETHEUS_URL) and books what it sees.

    An alert that `gpu-minutes serve` takes in makes it look at once.
    """
    if again and (since is None or until is None):
        raise BadInput("--again needs --since and --until: the time to look at once more")
    found = config.load()
    url = found.prometheus_url
    if url is None:
        raise BadInput("GPU_MINUTES_PROMETHEUS_URL is not set; give the address of the Prometheus to watch")
    site = read_site(Path(site_file) if site_file else found.site_file)
    engine = edge.open_ledger()
    with engine.connect() as connection:
        zone = edge.site_zone(connection)
    until_ms = edge.time_option(until, "--until", zone)
    since_ms = edge.time_option(since, "--since", zone)
    settings = Settings(scrape_interval_ms=round(scrape_interval * MS_PER_SECOND), site=site)
    access = Access(found.prometheus_token_file, found.prometheus_headers_file)
    with PrometheusClient(url, _TIMEOUT_SECONDS, access) as client:
        run = _Run(engine, client, settings, edge.act("observe", "").author, since_ms, until_ms)
        run.book_after_ms = 0 if once else round(book_every * MS_PER_SECOND)
        run.whole_every_ms = 1 if once else max(1, round(whole_every * MS_PER_SECOND))
        if again:
            with _plain_failure():
                run.again()
        elif once:
            with _plain_failure():
                run.catch_up()
        else:
            run.alertmanager = _alertmanager(alertmanager or found.alertmanager_url, receiver)
            run.for_ever(every, listen)


@dataclass(slots=True)
class _Run:
    """One call of the command: what is watched, from when to when, and what the worker says about itself."""

    engine: Engine
    client: PrometheusClient
    settings: Settings
    author: str
    since_ms: int | None
    until_ms: int | None
    book_after_ms: int = 0
    whole_every_ms: int = 1
    alertmanager: AlertmanagerClient | None = None
    metrics: WorkerMetrics = field(init=False)
    ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.metrics = WorkerMetrics(self.client)

    def catch_up(self) -> None:
        """Looks at everything up to the present, then once more at what late samples may have changed."""
        now_ms = clock.now_ms() if self.until_ms is None else min(self.until_ms, clock.now_ms())
        first_ms = clock.now_ms() - MS_PER_HOUR if self.since_ms is None else self.since_ms
        while not self.ended.is_set():
            window = worker.next_window(self.engine, self.settings, now_ms, first_ms, self.whole_every_ms)
            if window is None:
                break
            self._look(window, "first", SOURCE)
        if not self.ended.is_set():
            self._look_urgently(now_ms, first_ms)
        if not self.ended.is_set() and (window := worker.second_window(self.engine, clock.now_ms())):
            self._look(window, "again", worker.AGAIN)
        if (read_ms := worker.read_until(self.engine)) is not None:
            self.metrics.reached(read_ms)

    def _look_urgently(self, now_ms: int, first_ms: int) -> None:
        """Looks at what is too new for every detector with those that should wake somebody, or that an alert names."""
        keys, waiting = worker.alerted(self.engine)
        window = worker.next_window(self.engine, self.settings, now_ms, first_ms)
        if window is None:
            return  # alerts wait for the next look
        known = {detector.key for _, detector in catalogue(self.settings.site)}
        self._look(window, "urgent", None, urgent(self.settings.site) | (keys & known))
        worker.dealt_with(self.engine, waiting)

    def again(self) -> None:
        """Looks at a stretch of time as if nobody had; what it changes is a revision."""
        assert self.since_ms is not None and self.until_ms is not None
        latest_ms = worker.read_until(self.engine)
        end_ms = min(self.until_ms, latest_ms) if latest_ms is not None else self.since_ms
        if end_ms <= self.since_ms:
            raise BadInput("--again: nothing was read of this time yet; leave --again out")
        for start_ms in range(self.since_ms, end_ms, worker.MAX_WINDOW_MS):
            self._look(Window(start_ms, min(end_ms, start_ms + worker.MAX_WINDOW_MS)), "again", None)

    def for_ever(self, every_s: float, listen: str | None) -> None:
        """Looks again and again until it is told to end."""
        with _serving(self.metrics, listen), Bell(self.engine) as bell, _ends_on_signal(self.ended):
            while not self.ended.is_set():
                try:
                    self.catch_up()
                    if self.alertmanager is not None:
                        poll(self.engine, self.alertmanager, clock.now_ms())
                except PrometheusError as exc:
                    self.metrics.failed(str(exc.kind))
                    click.echo(f"gpu-minutes: {exc}; trying again in {every_s:g} s", err=True)
                except (OperationalError, psycopg.OperationalError) as exc:
                    self.metrics.failed(DATABASE)
                    said = f"gpu-minutes: the database does not answer: {_reason(exc)}; trying again in {every_s:g} s"
                    click.echo(said, err=True)
                except AlertmanagerError as exc:
                    self.metrics.failed("alertmanager")
                    click.echo(f"gpu-minutes: {exc}; trying again in {every_s:g} s", err=True)
                if bell.wait(every_s, self.ended):
                    self.metrics.woken()

    def _look(self, window: Window, kind: str, source: str | None, only: frozenset[str] | None = None) -> None:
        began_s = time.monotonic()
        done = worker.step(
            self.engine, self.client, self.settings, window, self.author, clock.now_ms(), self.book_after_ms, source,
            only,
        )  # fmt: skip
        self.metrics.looked(done, time.monotonic() - began_s, kind)
        _say(done)


def _alertmanager(url: str | None, receiver: str | None) -> AlertmanagerClient | None:
    return None if url is None else AlertmanagerClient(url, receiver)


def _reason(exc: Exception) -> str:
    return str(getattr(exc, "orig", None) or exc).strip().split("\n", 1)[0]


@contextmanager
def _plain_failure() -> Iterator[None]:
    try:
        yield
    except PrometheusError as exc:
        raise Unreachable(str(exc)) from exc


@contextmanager
def _serving(metrics: WorkerMetrics, listen: str | None) -> Iterator[None]:
    """Serves the worker's page while it runs."""
    if listen is None:
        yield
        return
    host, port = listening.address(listen, "127.0.0.1:9482")
    try:
        server, thread = start_http_server(port, host, metrics.registry)
    except OSError as exc:
        raise BadInput(f"--listen: cannot listen on {listening.shown(host, port)}: {exc.strerror}") from exc
    try:
        yield
    finally:
        server.shutdown()
        thread.join()


def _say(step: Step) -> None:
    """One line a look that changed something, on stderr."""
    if not step.done.changed:
        return
    intake = step.done.intake
    fresh = len(intake.evidence) - len(intake.superseded)
    parts = [f"looked at {format_instant(step.window.start_ms)} to {format_instant(step.window.end_ms)}"]
    parts.append(f"new {fresh}, went on or ended {len(intake.superseded)}, as before {intake.repeated}")
    if step.findings:
        first = step.findings[0]
        parts.append(f"could not use {len(step.findings)}, first {first.where}: {first.message}")
    if step.done.corrections:
        parts.append(f"{step.done.corrections} correction rows of closed months posted")
    parts.append(f"revision {step.done.rev}")
    click.echo("; ".join(parts), err=True)


@contextmanager
def _ends_on_signal(ended: threading.Event) -> Iterator[None]:
    """SIGTERM and SIGINT end the loop after the look in progress, so that nothing is left half told."""
    before = {number: signal.signal(number, lambda *_: ended.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
