"""gpu-minutes run: observe, group, attribute, book; forever or once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click
import psycopg
from sqlalchemy.exc import OperationalError

from warehouse import clock, config, worker
from warehouse.cli import edge
from warehouse.detect.words import Settings
from warehouse.errors import BadInput, Unreachable
from warehouse.evidence.access import Access
from warehouse.evidence.prometheus import PrometheusClient, PrometheusError
from warehouse.model.time import MS_PER_HOUR, MS_PER_SECOND, format_instant
from warehouse.worker import Step

_TIMEOUT_SECONDS = 30.0


@click.command("run")
@click.option("--once", is_flag=True, help="Catch up with the present (or --until), then end.")
@click.option("--until", metavar="T", help="Look no further than here.")
@click.option("--since", metavar="T", help="Where to begin when nothing was read yet (default: one hour ago).")
@click.option("--every", type=click.FloatRange(min=0.1), default=60.0, show_default=True, help="Seconds between looks.")
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
def COMMAND(
    once: bool, until: str | None, since: str | None, every: float, book_every: float, scrape_interval: float
) -> None:
    """Watches the signals in Prometheus (GPU_MINUTES_PROMETHEUS_URL) and books what it sees."""
    site = config.load()
    url = site.prometheus_url
    if url is None:
        raise BadInput("GPU_MINUTES_PROMETHEUS_URL is not set; give the address of the Prometheus to watch")
    engine = edge.open_ledger()
    with engine.connect() as connection:
        zone = edge.site_zone(connection)
    until_ms = edge.time_option(until, "--until", zone)
    since_ms = edge.time_option(since, "--since", zone)
    first_ms = clock.now_ms() - MS_PER_HOUR if since_ms is None else since_ms
    settings = Settings(scrape_interval_ms=round(scrape_interval * MS_PER_SECOND))
    book_after_ms = 0 if once else round(book_every * MS_PER_SECOND)
    author = edge.act("observe", "").author
    ended = threading.Event()
    access = Access(site.prometheus_token_file, site.prometheus_headers_file)
    with PrometheusClient(url, _TIMEOUT_SECONDS, access) as client, _ends_on_signal(ended):
        while not ended.is_set():
            now_ms = clock.now_ms() if until_ms is None else min(until_ms, clock.now_ms())
            try:
                while not ended.is_set() and (window := worker.next_window(engine, settings, now_ms, first_ms)):
                    _say(worker.step(engine, client, settings, window, author, clock.now_ms(), book_after_ms))
            except PrometheusError as exc:
                if once:
                    raise Unreachable(str(exc)) from exc
                click.echo(f"gpu-minutes: {exc}; trying again in {every:g} s", err=True)
            except (OperationalError, psycopg.OperationalError) as exc:
                if once:
                    raise
                reason = str(getattr(exc, "orig", None) or exc).strip().split("\n", 1)[0]
                click.echo(
                    f"gpu-minutes: the database does not answer: {reason}; trying again in {every:g} s", err=True
                )
            if once:
                return
            ended.wait(every)


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
