"""The page about detectors: its site file is the example, which is read; its commands and tables are as they are."""

from __future__ import annotations

import re
from pathlib import Path

import click
from prometheus_client import generate_latest

from tests.conftest import Cli
from tests.docs.consoles import ROOT, blocks, steps
from warehouse.cli.registry import Commands
from warehouse.detect.observe import catalogue
from warehouse.detect.site_file import read_site
from warehouse.evidence.prometheus import PrometheusClient
from warehouse.worker_metrics import WorkerMetrics

PAGE = (ROOT / "docs" / "detectors.md").read_text(encoding="utf-8")
EXAMPLE = ROOT / "examples" / "detectors" / "site.toml"


def test_the_site_file_on_the_page_is_the_example_and_is_read() -> None:
    assert f"```toml\n{EXAMPLE.read_text()}```" in PAGE
    site = read_site(EXAMPLE)
    keys = {detector.key for _, detector in catalogue(site)}
    assert "scratch_full" in keys and "exporter_silent" not in keys
    assert site.exporters == ("ours", "dcgm")


def test_the_listing_on_the_page_is_what_the_command_prints(cli: Cli) -> None:
    command, shown = next(step for kind, block in blocks(PAGE) if kind == "console" for step in steps(block)
                          if "rules --list" in step[0])  # fmt: skip
    assert (
        command == "gpu-minutes rules --list --format csv --site-file examples/detectors/site.toml | grep '^job_hang,'"
    )
    answer = cli("rules", "--list", "--format", "csv", "--site-file", EXAMPLE)
    assert "".join(f"{line}\n" for line in answer.out.splitlines() if line.startswith("job_hang,")) == shown


def test_every_option_on_the_page_is_one_of_the_command() -> None:
    group = Commands("gpu-minutes")
    for kind, block in blocks(PAGE):
        for command, _ in steps(block) if kind == "console" else ():
            if not command.startswith("gpu-minutes"):
                continue
            words = re.split(r"[|>#]", command)[0].split()
            found = group.get_command(click.Context(group), words[1])
            assert found is not None, command
            known = {option for parameter in found.params for option in parameter.opts}
            assert {word for word in words if word.startswith("--")} <= known, command


def test_the_table_of_the_worker_s_metrics_is_what_it_serves(tmp_path: Path) -> None:
    with PrometheusClient("http://127.0.0.1:1", 1) as client:
        metrics = WorkerMetrics(client)
        metrics.reached(1_000_000)
        served = generate_latest(metrics.registry).decode()
    names = set(re.findall(r"^# HELP (gpuminutes_worker_\w+)", served, flags=re.MULTILINE))
    shown = set(re.findall(r"`(gpuminutes_worker_\w+)", PAGE))
    shown |= {f"gpuminutes_worker_prometheus{tail}" for tail in re.findall(r"`(_\w+_total)`", PAGE)}
    # Gauges of the last look come with it.
    assert shown - names == {"gpuminutes_worker_look_duration_seconds", "gpuminutes_worker_unusable_findings"}
    assert names <= shown
