"""gpu-minutes goodput: where the GPU time of a window went, and what its loss cost."""

from __future__ import annotations

from typing import Any

import click

from warehouse import views
from warehouse.cli import edge, tables
from warehouse.model.time import format_duration, parse_instant
from warehouse.report import figures


@click.command("goodput")
@click.option("--from", "start", metavar="T", help="Start of the window (default: first commissioning).")
@click.option("--to", "end", metavar="T", help="End of the window (default: what is booked).")
@click.option("--by", type=click.Choice(views.GROUPINGS), default="state", show_default=True, help="What a row is.")
@click.option("--site", metavar="NAME", help="Only this site, in its own calendar and currency (default: all sites).")
@click.option("--card", metavar="NAME", help="The rate card (default: `list`, or the only one).")
@edge.reading_options
def COMMAND(
    start: str | None, end: str | None, by: str, site: str | None, card: str | None, form: str, as_of: int | None
) -> None:
    """Says where the GPU time of a window went, and what its loss cost.

    The six classes sum to installed, and so do the rows. Ratios: goodput_of_installed = good / installed,
    goodput_of_allocated = good / allocated, availability = (installed - stranded - down - recovering - maintenance)
    / installed, the same excluding planned with maintenance as available, presumed_share = productive time without a
    progress signal / installed. Cost of a row: by state and class every row prices its own time, unused and unknown
    too; by anything else a row prices unplanned, planned and overhead, so that the rows sum to the cost of loss.
    Amounts in several currencies are never added. Without --site, where the sites' time zones differ, a date is a
    midnight in UTC.
    """
    with edge.reading(as_of) as (connection, revision):
        zone = views.reading_zone(connection, revision.rev, site)
        times = edge.time_option(start, "--from", zone), edge.time_option(end, "--to", zone)
        question = views.ask(connection, revision, *times, card, site)
        answer: dict[str, Any] = views.goodput(connection, question, by)
    paid = question.currencies
    columns = [by, "gpu_ms", "lost_gpu_ms", *figures.cost_columns(paid), "incidents"]
    rows = [
        [row["key"], row["gpu_ms"], row["lost_gpu_ms"], *figures.cost_cells(row, paid), row["incidents"]]
        for row in answer["rows"]
    ]
    edge.show(form, answer, columns, rows, _table(answer, by, question.zone.key, site))


def _table(answer: dict[str, Any], by: str, zone: str, site: str | None) -> str:
    currency = answer["currency"]
    installed = answer["installed_gpu_ms"]
    window = answer["window"]
    length = format_duration(parse_instant(window["to"]) - parse_instant(window["from"]))
    where = "" if site is None else f"site {site}, "
    lines = [f"{where}{window['from']} to {window['to']} ({length}), revision {answer['revision']}"]
    if answer["provisional"]:
        lines.append("provisional: not all of the window is booked; what lies behind the booking counts as unknown")
    rows = [
        [
            row["key"],
            tables.minutes(row["gpu_ms"]),
            _share(row["gpu_ms"], installed),
            tables.minutes(row["lost_gpu_ms"]),
            figures.cost(row, currency),
            row["incidents"],
        ]
        for row in answer["rows"]
    ]
    rows.append(["installed", tables.minutes(installed), "100.00 %", "", "", ""])
    if by in ("day", "month"):
        lines.append(f"{by}s of the calendar in {zone}")
    head = [by, "GPU-minutes", "share", "lost GPU-minutes", "cost of it", "incidents"]
    return "\n".join([*lines, "", tables.table(head, rows, right=[1, 2, 3, 4, 5]), "", *_summary(answer)])


def _summary(answer: dict[str, Any]) -> list[str]:
    installed = answer["installed_gpu_ms"]
    classes = ", ".join(f"{name} {tables.minutes(value)}" for name, value in answer["classes"].items())
    lines = [
        f"classes (GPU-minutes): {classes}",
        f"unknown              {_share(answer['classes']['unknown'], installed):>9}  of installed: "
        f"{_why_unknown(answer)}",
        f"availability         {tables.percent(answer['availability']):>9}  of installed, with unknown as available"
        f"{_excluding_planned(answer)}",
        f"goodput of installed {tables.percent(answer['goodput_of_installed']):>9}",
        f"goodput of allocated {tables.percent(answer['goodput_of_allocated']):>9}  "
        f"of {tables.minutes(answer['allocated_gpu_ms'])} GPU-minutes",
        f"presumed productive  {tables.percent(answer['presumed_share']):>9}  of installed: no progress signal",
    ]
    if answer["contested_gpu_ms"]:
        lines.append(
            f"contested            {_share(answer['contested_gpu_ms'], installed):>9}  of installed is unknown because "
            f"jobs claim more than a whole GPU: {tables.minutes(answer['contested_gpu_ms'])} GPU-minutes"
        )
    if answer["declared_late_gpu_ms"]:
        lines.append(
            f"declared late        {_share(answer['declared_late_gpu_ms'], installed):>9}  of installed is planned by "
            f"plans that came after their start: {tables.minutes(answer['declared_late_gpu_ms'])} GPU-minutes"
        )
    return [*lines, f"cost of loss: {_cost(answer)}"]


def _cost(answer: dict[str, Any]) -> str:
    if answer["price_card"] is None:
        return "unpriced; load a rate card: gpu-minutes rates load FILE.csv"
    said = f"{figures.cost(answer, answer['currency'])} (unplanned + planned + overhead), "
    said += f"card {answer['price_card']}"
    if answer["unpriced_gpu_ms"]:
        said += f"; without a price: {tables.minutes(answer['unpriced_gpu_ms'])} GPU-minutes"
    return said


def _excluding_planned(answer: dict[str, Any]) -> str:
    """Gives the second figure of availability where it is another one."""
    other = answer["availability_excluding_planned"]
    return "" if other == answer["availability"] else f"; {tables.percent(other)} excluding planned"


def _why_unknown(answer: dict[str, Any]) -> str:
    return "no source speaks" + (", or jobs contradict each other" if answer["contested_gpu_ms"] else "")


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "-"
