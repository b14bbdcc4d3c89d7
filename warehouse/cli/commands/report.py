"""gpu-minutes report: text that can be sent."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from warehouse.cli import edge
from warehouse.cli.commands import incident as incident_command
from warehouse.errors import BadInput
from warehouse.report import markdown


@click.group("report")
def COMMAND() -> None:
    """Reports that can be sent and made again, byte for byte."""


@COMMAND.command("incident")
@click.argument("number", metavar="ID")
@click.option("--format", "form", type=click.Choice(["md"]), default="md", show_default=True)
@click.option("-o", "--output", metavar="FILE", help="Write here (default: standard output).")
@click.option("--site", metavar="NAME", help="Only what it did to this site, in its own currency.")
@click.option("--card", metavar="NAME", help="The rate card (default: `list`, or the only one).")
@click.option("--marginal", is_flag=True, help="Also tell what would have been lost without it.")
@click.option("--as-of", type=edge.REVISION, metavar="REVISION", help="Read as the ledger stood at a revision.")
def incident(
    number: str, form: str, output: str | None, site: str | None, card: str | None, marginal: bool, as_of: int | None
) -> None:
    """Writes the postmortem cost report of incident ID."""
    answer = incident_command.read(number, card, as_of, site, marginal=marginal)
    command = f"gpu-minutes report incident {answer['ref']} --format {form} --as-of {answer['revision']}"
    command += f" --site {shlex.quote(site)}" if site else ""
    command += f" --card {shlex.quote(card)}" if card else ""
    command += " --marginal" if marginal else ""
    text = markdown.report(answer, command, answer["engine"])
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as exc:
        raise BadInput(f"{output}: cannot be written: {exc.strerror}") from exc
    click.echo(f"{output} written")
