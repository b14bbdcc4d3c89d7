"""gpu-minutes incidents: the list, the costliest first."""

from __future__ import annotations

from typing import Any

import click

from warehouse import views
from warehouse.cli import edge, tables
from warehouse.report import figures


@click.command("incidents")
@click.option("--from", "start", metavar="T", help="Start of the window (default: first commissioning).")
@click.option("--to", "end", metavar="T", help="End of the window (default: what is booked).")
@click.option("--cause", metavar="CODE", help="Only this cause, or this category before the slash.")
@click.option("--status", type=click.Choice(["open", "closed"]), help="Only open or only closed ones.")
@click.option("--node", metavar="NAME", help="Only those that touch this node.")
@click.option("--site", metavar="NAME", help="Only this site: its part of each incident, in its own currency.")
@click.option("--limit", type=click.IntRange(min=1), help="Only so many (a table shows 20 unless told).")
@click.option("--card", metavar="NAME", help="The rate card (default: `list`, or the only one).")
@edge.reading_options
def COMMAND(
    start: str | None,
    end: str | None,
    cause: str | None,
    status: str | None,
    node: str | None,
    site: str | None,
    limit: int | None,
    card: str | None,
    form: str,
    as_of: int | None,
) -> None:
    """Lists the incidents of a window, the costliest first; figures are clipped to the window."""
    with edge.reading(as_of) as (connection, revision):
        zone = views.reading_zone(connection, revision.rev, site)
        times = edge.time_option(start, "--from", zone), edge.time_option(end, "--to", zone)
        question = views.ask(connection, revision, *times, card, site)
        found: list[dict[str, Any]] = views.incidents(connection, question)
    found = [
        i
        for i in found
        if (cause is None or i["cause"] == cause or i["cause"].startswith(cause + "/"))
        and (status is None or i["status"] == status)
        and (node is None or node in i["nodes"])
    ]
    total = len(found)
    limit = 20 if limit is None and form == "table" else limit
    found = found[:limit]
    plain = ["id", "title", "cause", "status", "start", "end", "gpus", "lost_gpu_ms"]
    paid = question.currencies
    columns = [*plain, *figures.cost_columns(paid), "currency"]
    rows = [[*(i[column] for column in plain), *figures.cost_cells(i, paid), i["currency"]] for i in found]
    shown = [
        [
            i["ref"], i["title"], i["cause"], i["start"], i["end"] or "open", i["gpus"],
            tables.minutes(i["lost_gpu_ms"]), figures.cost(i, i["currency"]),
        ]
        for i in found
    ]  # fmt: skip
    head = ["incident", "title", "cause", "start", "end", "GPUs", "lost GPU-minutes", "cost"]
    text = tables.table(head, shown, right=[5, 6, 7]) + f"\n{len(found)} of {total} incidents; revision {revision.rev}"
    edge.show(form, {"revision": revision.rev, "incidents": found}, columns, rows, text)
