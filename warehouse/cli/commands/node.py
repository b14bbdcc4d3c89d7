"""gpu-minutes node: what each GPU of one node was on one day."""

from __future__ import annotations

from typing import Any

import click

from warehouse import views
from warehouse.cli import edge, tables
from warehouse.model.state import PPM

_WHY = {
    "silence": "no source speaks",
    "conflict": "jobs claim more than the whole",
    "behind": "not booked yet",
}


@click.command("node")
@click.argument("name", metavar="NAME")
@click.option("--day", required=True, metavar="D", help="A day of the site's calendar, such as 2026-10-01.")
@click.option("--site", metavar="NAME", help="The node's site, where several have a node of that name.")
@edge.reading_options
def COMMAND(name: str, day: str, site: str | None, form: str, as_of: int | None) -> None:
    """Shows what each GPU of node NAME was on a day, stretch by stretch: they sum to its installed time.

    A day is one of the site's own calendar and may have 23 or 25 hours. Instants are in UTC.
    """
    with edge.reading(as_of) as (connection, revision):
        answer: dict[str, Any] = views.node_day(connection, revision, name, day, site)
    columns = ["gpu", "state", "cause", "incident", "jobs", "held_ppm", "lost_ppm", "from", "to", "gpu_ms"]
    rows = [[" + ".join(row[c]) if c == "jobs" else row[c] for c in columns] for row in answer["rows"]]
    edge.show(form, answer, columns, rows, _table(answer))


def _table(answer: dict[str, Any]) -> str:
    window = answer["window"]
    lines = [
        f"node {answer['node']} at {answer['site']}, {window['from']} to {window['to']} "
        f"(a day in {answer['timezone']}), revision {answer['revision']}"
    ]
    if answer["provisional"]:
        lines.append("provisional: not all of the day is booked; what lies behind the booking counts as unknown")
    rows = [
        [
            row["gpu"],
            row["from"],
            row["to"],
            tables.minutes(row["gpu_ms"]),
            row["state"] + (" (presumed)" if row["basis"] == "presumed" else ""),
            row["cause"] or _WHY.get(row["rule"], "-"),
            row["incident"] or "-",
            _jobs(row),
        ]
        for row in answer["rows"]
    ]
    head = ["GPU", "from", "to", "minutes", "state", "cause", "incident", "job"]
    total = f"installed: {tables.minutes(answer['installed_gpu_ms'])} GPU-minutes"
    return "\n".join([*lines, "", tables.table(head, rows, right=[0, 3]), "", total])


def _jobs(row: dict[str, Any]) -> str:
    if not row["jobs"]:
        return "-"
    said = " + ".join(row["jobs"])
    return said if row["held_ppm"] == PPM else f"{said} ({row['held_ppm'] / PPM:.0%} of it)"
