"""gpu-minutes goodput: where the GPU time of a window went, and what its loss cost."""

from __future__ import annotations

from typing import Any

import click

from warehouse import views
from warehouse.cli import edge, tables
from warehouse.model.time import format_duration, parse_instant


@click.command("goodput")
@click.option("--from", "start", metavar="T", help="Start of the window (default: first commissioning).")
@click.option("--to", "end", metavar="T", help="End of the window (default: what is booked).")
@click.option("--by", type=click.Choice(views.GROUPINGS), default="state", show_default=True, help="What a row is.")
@click.option("--card", metavar="NAME", help="The rate card (default: `list`, or the only one).")
@edge.reading_options
def COMMAND(start: str | None, end: str | None, by: str, card: str | None, form: str, as_of: int | None) -> None:
    """Says where the GPU time of a window went, and what its loss cost.

    The six classes sum to installed, and so do the rows. Ratios: goodput_of_installed = good / installed,
    goodput_of_allocated = good / allocated, availability = (installed - stranded - down - recovering - maintenance)
    / installed, presumed_share = productive time without a progress signal / installed. Cost of a row: by state and
    class every row prices its own time, unused and unknown too; by anything else a row prices unplanned, planned and
    overhead, so that the rows sum to the cost of loss.
    """
    with edge.reading(as_of) as (connection, revision):
        zone = edge.site_zone(connection, revision.rev)
        times = edge.time_option(start, "--from", zone), edge.time_option(end, "--to", zone)
        question = views.ask(connection, revision, *times, card)
        answer: dict[str, Any] = views.goodput(connection, question, by)
    columns = [by, "gpu_ms", "lost_gpu_ms", "cost_of_loss", "incidents"]
    rows = [[row["key"], *(row[column] for column in columns[1:])] for row in answer["rows"]]
    edge.show(form, answer, columns, rows, _table(answer, by, question.zone.key))


def _table(answer: dict[str, Any], by: str, zone: str) -> str:
    currency = answer["currency"]
    installed = answer["installed_gpu_ms"]
    window = answer["window"]
    length = format_duration(parse_instant(window["to"]) - parse_instant(window["from"]))
    lines = [f"{window['from']} to {window['to']} ({length}), revision {answer['revision']}"]
    if answer["provisional"]:
        lines.append("provisional: not all of the window is booked; what lies behind the booking counts as unknown")
    rows = [
        [
            row["key"],
            tables.minutes(row["gpu_ms"]),
            _share(row["gpu_ms"], installed),
            tables.minutes(row["lost_gpu_ms"]),
            tables.money(row["cost_of_loss"], currency),
            row["incidents"],
        ]
        for row in answer["rows"]
    ]
    rows.append(["installed", tables.minutes(installed), "100.00 %", "", "", ""])
    if by in ("day", "month"):
        lines.append(f"{by}s of the calendar in {zone}")
    head = [by, "GPU-minutes", "share", "lost GPU-minutes", "cost of it", "incidents"]
    lines += ["", tables.table(head, rows, right=[1, 2, 3, 4, 5]), ""]
    classes = ", ".join(f"{name} {tables.minutes(value)}" for name, value in answer["classes"].items())
    lines += [
        f"classes (GPU-minutes): {classes}",
        f"unknown              {_share(answer['classes']['unknown'], installed):>9}  of installed: no source speaks",
        f"availability         {tables.percent(answer['availability']):>9}  of installed, with unknown as available",
        f"goodput of installed {tables.percent(answer['goodput_of_installed']):>9}",
        f"goodput of allocated {tables.percent(answer['goodput_of_allocated']):>9}  "
        f"of {tables.minutes(answer['allocated_gpu_ms'])} GPU-minutes",
        f"presumed productive  {tables.percent(answer['presumed_share']):>9}  of installed: no progress signal",
        f"cost of loss: {_cost(answer)}",
    ]
    return "\n".join(lines)


def _cost(answer: dict[str, Any]) -> str:
    if answer["price_card"] is None:
        return "unpriced; load a rate card: gpu-minutes rates load FILE.csv"
    said = f"{tables.money(answer['cost_of_loss'], answer['currency'])} (unplanned + planned + overhead), "
    said += f"card {answer['price_card']}"
    if answer["unpriced_gpu_ms"]:
        said += f"; without a price: {tables.minutes(answer['unpriced_gpu_ms'])} GPU-minutes"
    return said


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "-"
