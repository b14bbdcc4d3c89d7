"""gpu-minutes incident: one incident, its evidence and its money, and what people rule on it."""

from __future__ import annotations

from typing import Any

import click

from warehouse import views
from warehouse.cli import edge, rulings
from warehouse.errors import BadInput
from warehouse.report import figures, markdown


@click.group("incident")
def COMMAND() -> None:
    """One incident: what happened, how it is known, what it cost, and what people rule on it."""


@COMMAND.command()
@click.argument("number", metavar="ID")
@click.option("--site", metavar="NAME", help="Only what it did to this site, in its own currency.")
@click.option("--card", metavar="NAME", help="The rate card (default: `list`, or the only one).")
@click.option("--marginal", is_flag=True, help="Also tell what would have been lost without it.")
@edge.reading_options
def show(number: str, site: str | None, card: str | None, marginal: bool, form: str, as_of: int | None) -> None:
    """Shows incident ID (12 or INC-12): cause, phases, money, evidence."""
    answer = read(number, card, as_of, site, marginal=marginal)
    paid = answer.get("currencies", [])
    plain = ["state", "start", "end", "gpu_ms", "lost_gpu_ms"]
    columns = [*plain, *figures.cost_columns(paid)]
    rows = [[*(phase[column] for column in plain), *figures.cost_cells(phase, paid)] for phase in answer["phases"]]
    edge.show(form, answer, columns, rows, markdown.screen(answer))


def read(
    number: str, card: str | None, as_of: int | None, site: str | None = None, *, marginal: bool = False
) -> dict[str, Any]:
    """Gives one incident over all booked time, or what it did to one site.

    With `marginal` it also says what the loss would have been without it.

    Raises:
        BadInput: for an unknown or merged one, saying where it went.
    """
    incident_id = edge.incident_id(number)
    with edge.reading(as_of) as (connection, revision):
        question = views.ask(connection, revision, None, None, card, site)
        answer = views.incident(connection, question, incident_id)
        if marginal and answer is not None and "cause" in answer:
            answer["marginal"] = views.marginal(connection, question, answer)
    if answer is None:
        where = "" if site is None else f" at site {site}"
        raise BadInput(f"there is no incident {number}{where}; list them: gpu-minutes incidents")
    if "cause" not in answer:
        raise BadInput(f"incident {number} was merged into INC-{answer['merged_into']}")
    return answer


for _ruling in rulings.COMMANDS:
    COMMAND.add_command(_ruling)
