"""gpu-minutes rules: the catalogue's alert and recording rules for Prometheus, and the numbers that a site may set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
import yaml

from warehouse import config
from warehouse.cli import edge, tables
from warehouse.detect.observe import catalogue
from warehouse.detect.site import Site
from warehouse.detect.site_file import read_site
from warehouse.model.time import MS_PER_SECOND
from warehouse.rules.alerting import RuleSettings, rule_file

_HEAD = (
    "# Written by `gpu-minutes rules`; the same expressions, thresholds and durations as the detectors of the ledger.\n"
)
_RUNBOOKS = "docs/runbooks/"


@click.command("rules")
@click.option("--site-file", metavar="FILE", help="Labels, jobs and thresholds (default: GPU_MINUTES_SITE_FILE).")
@click.option(
    "--exporter",
    "exporters",
    multiple=True,
    type=click.Choice(Site().exporters),
    help="Rules over series of this exporter of GPUs; repeatable (default: those of the site).",
)
@click.option("--runbooks", metavar="URL", default=_RUNBOOKS, show_default=True, help="Where the runbooks are.")
@click.option(
    "--scrape-interval", type=click.FloatRange(min=1), default=15.0, show_default=True, help="Seconds of the scrapes."
)
@click.option(
    "--evaluate-every", type=click.IntRange(min=1), default=30, show_default=True, help="Seconds between evaluations."
)
@click.option("--list", "listed", is_flag=True, help="Lists detectors and their thresholds instead.")
@click.option("--format", "form", type=click.Choice(["table", "json", "csv"]), default="table", help="Of --list.")
def COMMAND(
    site_file: str | None,
    exporters: tuple[str, ...],
    runbooks: str,
    scrape_interval: float,
    evaluate_every: int,
    listed: bool,
    form: str,
) -> None:
    """Prints the catalogue's rules for Prometheus as YAML: redirect them into a file of its rule_files."""
    site = read_site(Path(site_file) if site_file else config.load().site_file)
    site = replace(site, exporters=exporters or site.exporters)
    if listed:
        _list(site, form)
        return
    settings = RuleSettings(round(scrape_interval * MS_PER_SECOND), evaluate_every * MS_PER_SECOND, runbooks)
    text = yaml.safe_dump(rule_file(site, settings), sort_keys=False, allow_unicode=True, width=110)
    click.echo(_HEAD + text, nl=False)


def _list(site: Site, form: str) -> None:
    columns = ["detector", "cause", "setting", "value", "default", "unit", "source"]
    rows: list[list[object]] = []
    for cause, detector in catalogue(replace(site, tuning={})):
        key = detector.key if site.enabled(detector) else f"{detector.key} (off)"
        lasting, usual = site.min_duration_ms(detector), detector.min_duration_ms
        rows.append(
            [
                key,
                cause.code,
                "min_duration_s",
                _number(lasting / 1000),
                _number(usual / 1000),
                "s",
                "shorter is dropped",
            ]
        )
        values = site.thresholds(detector)
        rows += [
            [key, cause.code, t.name, _number(values[t.name]), _number(t.default), t.unit, t.why]
            for t in detector.thresholds
        ]
    document = [dict(zip(columns, row, strict=True)) for row in rows]
    edge.show(form, document, columns, rows, tables.table(columns, rows))


def _number(value: float) -> float | int:
    return int(value) if value == int(value) else value
