"""gpu-minutes doctor: what is reachable, what is missing, what to do."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass

import click

from warehouse import clock, config
from warehouse.cli import edge, tables
from warehouse.config import Config
from warehouse.detect.doctor import sights
from warehouse.detect.observe import catalogue
from warehouse.detect.site_file import read_site
from warehouse.detect.words import SOURCE, Settings
from warehouse.errors import GpuMinutesError
from warehouse.evidence.access import Access
from warehouse.evidence.prometheus import PrometheusClient, PrometheusError
from warehouse.model.time import format_duration, format_instant
from warehouse.store import connect, fleet, migrate, progress, rates, revisions

_TIMEOUT_SECONDS = 5.0
OK, MISSING, WRONG = "ok", "missing", "WRONG"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: how it is, and what to do where it is not well."""

    what: str
    result: str
    said: str
    do: str = ""


@click.command("doctor")
@click.option("--format", "form", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True)
def COMMAND(form: str) -> int:
    """Says what is reachable, what is missing and what to do; exit 1 when something that is set up does not work."""
    settings = config.load()
    findings = [*_database(settings), *_signals(settings), *_programs()]
    columns = ["what", "result", "found", "what to do"]
    rows = [[f.what, f.result, f.said, f.do] for f in findings]
    edge.show(form, {"findings": [asdict(f) for f in findings]}, columns, rows, tables.table(columns, rows))
    return 1 if any(f.result == WRONG for f in findings) else 0


def _database(settings: Config) -> list[Finding]:
    where = "embedded, under " + str(settings.home) if settings.database_url is None else "GPU_MINUTES_DATABASE_URL"
    try:
        engine = connect.open_engine(settings)
    except GpuMinutesError as exc:
        return [Finding("database", WRONG, exc.lines[0], "start it, or correct GPU_MINUTES_DATABASE_URL")]
    found, needed = migrate.current(engine), migrate.newest()
    if found != needed:
        said = f"{where}, schema at {found or 'empty'}, needed {needed}"
        return [Finding("database", MISSING if found is None else WRONG, said, "gpu-minutes db upgrade")]
    findings = [Finding("database", OK, f"{where}, schema at {found}")]
    with engine.connect() as connection:
        revision = revisions.latest(connection)
        if revision is None or not fleet.tenure_blocks(connection, revision.rev):
            findings.append(Finding("fleet", MISSING, "no node is known", "gpu-minutes fleet load FILE"))
            return findings
        gpus = sum(high - low for b in fleet.tenure_blocks(connection, revision.rev) for low, high in b.slots)
        findings.append(Finding("fleet", OK, f"{gpus} GPU tenures, revision {revision.rev}"))
        cards = sorted({rate.card for rate in rates.read(connection, revision.rev)})
        findings.append(
            Finding("rates", OK, f"cards: {', '.join(cards)}")
            if cards
            else Finding("rates", MISSING, "no price: all loss is unpriced", "gpu-minutes rates load FILE.csv")
        )
        findings.append(_booked(revision.horizon_ms))
        read_ms = progress.read(connection, SOURCE)
        if read_ms is not None:
            findings.append(Finding("worker", OK, f"has read the signals up to {format_instant(read_ms)}"))
    return findings


def _booked(horizon_ms: int | None) -> Finding:
    if horizon_ms is None:
        return Finding(
            "ledger", MISSING, "nothing is booked yet", "gpu-minutes import evidence FILE, or gpu-minutes run"
        )
    age = format_duration(max(0, clock.now_ms() - horizon_ms))
    return Finding("ledger", OK, f"booked up to {format_instant(horizon_ms)}, {age} ago")


def _signals(settings: Config) -> list[Finding]:
    if settings.prometheus_url is None:
        return [
            Finding(
                "Prometheus", MISSING, "GPU_MINUTES_PROMETHEUS_URL is not set",
                "set it to http://HOST:9090 to detect from live signals",
            )
        ]  # fmt: skip
    site = read_site(settings.site_file)
    access = Access(settings.prometheus_token_file, settings.prometheus_headers_file)
    with PrometheusClient(settings.prometheus_url, _TIMEOUT_SECONDS, access) as client:
        try:
            seen = sights(client, Settings(site=site), catalogue(site), clock.now_ms())
        except PrometheusError as exc:
            return [Finding("Prometheus", WRONG, str(exc), "start it, or correct GPU_MINUTES_PROMETHEUS_URL")]
    blind = [sight for sight in seen if sight.blind]
    said = f"answers; {len(seen) - len(blind)} of {len(seen)} detectors see their series"
    findings = [Finding("Prometheus", OK, said)]
    for sight in blind:
        lacks = f"blind: no {', '.join(sight.missing)} in a day"
        findings.append(Finding(f"{sight.cause}, detector {sight.detector}", MISSING, lacks, "scrape its exporter"))
    return findings


def _programs() -> list[Finding]:
    found = shutil.which("prometheus")
    return [
        Finding("prometheus program", OK, found)
        if found
        else Finding("prometheus program", MISSING, "not on PATH; only gpu-minutes demo needs it",
                     "apt-get install --no-install-recommends prometheus")
    ]  # fmt: skip
