"""gpu-minutes incident: one incident, its evidence and its money."""

from __future__ import annotations

from typing import Any

import click

from warehouse import views
from warehouse.cli import edge
from warehouse.errors import BadInput
from warehouse.report import figures, markdown


@click.group("incident")
def COMMAND() -> None:
    """One incident: what happened, how it is known, what it cost."""


@COMMAND.command()
@click.argument("number", metavar="ID")
@click.option("--site", metavar="NAME", help="Only what it did to this site, in its own currency.")
@click.option("--card", metavar="NAME", help="The rate card (default: `list`, or the only one).")
@edge.reading_options
def show(number: str, site: str | None, card: str | None, form: str, as_of: int | None) -> None:
    """Shows incident ID (12 or INC-12): cause, phases, money, evidence."""
    answer = read(number, card, as_of, site)
    paid = answer.get("currencies", [])
    plain = ["state", "start", "end", "gpu_ms", "lost_gpu_ms"]
    columns = [*plain, *figures.cost_columns(paid)]
    rows = [[*(phase[column] for column in plain), *figures.cost_cells(phase, paid)] for phase in answer["phases"]]
    edge.show(form, answer, columns, rows, markdown.screen(answer))


def read(number: str, card: str | None, as_of: int | None, site: str | None = None) -> dict[str, Any]:
    """Gives one incident over all booked time, or what it did to one site.

    Raises:
        BadInput: for an unknown or merged one, saying where it went.
    """
    incident_id = parse_id(number)
    with edge.reading(as_of) as (connection, revision):
        question = views.ask(connection, revision, None, None, card, site)
        answer = views.incident(connection, question, incident_id)
    if answer is None:
        where = "" if site is None else f" at site {site}"
        raise BadInput(f"there is no incident {number}{where}; list them: gpu-minutes incidents")
    if "cause" not in answer:
        raise BadInput(f"incident {number} was merged into INC-{answer['merged_into']}")
    return answer


def parse_id(text: str) -> int:
    """Reads an incident's number, with or without INC- before it."""
    digits = text.upper().removeprefix("INC-")
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 18:
        raise BadInput(f"'{text[:40]}' is no incident number such as 12 or INC-12")
    return int(digits)
