"""gpu-minutes period: which months are closed, and what stands in their books."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import click

from warehouse import clock, views
from warehouse.cli import edge, tables
from warehouse.model.time import from_datetime

# What a month that is not closed has in its books, by its status.
_OPEN = {
    "open": ": usage is posted when the month is closed",
    "to come": ": it has not begun",
}
_FIGURES = ("gpu_ms", "lost_gpu_ms", "unpriced_gpu_ms", "worth", "cost_of_loss", "postings")


@click.group("period")
def COMMAND() -> None:
    """The months of each site: which are closed, and what stands in their books."""


@COMMAND.command("list")
@edge.reading_options
def list_(form: str, as_of: int | None) -> None:
    """Lists the months of every site, closed and open, up to now (with --as-of, up to then)."""
    with edge.reading(as_of) as (connection, revision):
        until_ms = clock.now_ms() if as_of is None else from_datetime(revision.recorded_at)
        months = views.period_months(connection, revision, until_ms)
    columns = [
        "site", "month", "timezone", "from", "to", "hours", "status", "closed_at", "closed_by", "closed_revision",
        "reason",
    ]  # fmt: skip
    rows = [[month[column] for column in columns] for month in months]
    text = tables.table(columns, [["" if cell is None else cell for cell in row] for row in rows], right=[5, 9])
    text += f"\nmonths of each site's own calendar, in UTC; revision {revision.rev}"
    edge.show(form, {"revision": revision.rev, "months": months}, columns, rows, text)


@COMMAND.command()
@click.argument("code", metavar="YYYY-MM")
@click.option("--site", metavar="NAME", help="One site (default: every site).")
@click.option("--card", metavar="NAME", help="One rate card (default: every card).")
@click.option(
    "--by", type=click.Choice(views.POSTING_GROUPINGS), default="state", show_default=True, help="What a row is."
)
@edge.reading_options
def show(code: str, site: str | None, card: str | None, by: str, form: str, as_of: int | None) -> None:
    """Shows the books of a month: its usage, and corrections by the month in which the time was spent.

    A closed month never changes: what is learned later stands in the month that was open then, as rows that take back
    and rows that stand in their place. `worth` prices all of a row's time; `cost_of_loss` the lost part that is
    unplanned, planned or overhead. Each is rounded once, so that rows sum to their month and months to the total.
    """
    with edge.reading(as_of) as (connection, revision):
        answer: dict[str, Any] = views.period_books(connection, revision, code, site, card, by)
    columns = ["site", "card", "currency", "charge", "kind", by, *_FIGURES]
    rows = [
        [place["site"], book["card"], book["currency"], charge["charge"], charge["kind"], row["key"]]
        + [_number(row[figure]) for figure in _FIGURES]
        for place in answer["sites"]
        for book in place["books"]
        for charge in book["charges"]
        for row in charge["rows"]
    ]
    text = "\n\n".join(_site(place, code, by) for place in answer["sites"]) + f"\nrevision {answer['revision']}"
    edge.show(form, answer, columns, rows, text)


def _number(figure: int | str | None) -> int | Decimal | None:
    """Gives a figure as a number: a spreadsheet takes a text that begins with a minus for a formula."""
    return Decimal(figure) if isinstance(figure, str) else figure


def _site(place: dict[str, Any], code: str, by: str) -> str:
    head = f"{code} of site {place['site']}: {place['from']} to {place['to']}"
    head += f" ({place['hours']} h in {place['timezone']}), "
    if place["status"] == "closed":
        when = "" if place["closed_at"] is None else f"{place['closed_at']} "
        head += f"closed {when}by {place['closed_by']} at revision {place['closed_revision']}: {place['reason']}"
    else:
        head += place["status"] + _OPEN.get(place["status"], "")
    if not place["books"]:
        return head + "\nnothing is posted in it"
    return head + "\n" + "\n".join(_book(book, by) for book in place["books"])


def _book(book: dict[str, Any], by: str) -> str:
    rows: list[list[object]] = []
    for charge in book["charges"]:
        what = "usage" if charge["kind"] == "usage" else "corrects " + charge["charge"]
        rows += [[what, row["key"], *_cells(row), row["postings"]] for row in charge["rows"]]
        rows.append([what, "sum", *_cells(charge), ""])
    rows.append(["total", "", *_cells(book), ""])
    head = ["", by, "GPU-minutes", "lost", "unpriced", "worth", "cost of loss", "rows"]
    return f"\ncard {book['card']}, {book['currency']}\n" + tables.table(head, rows, right=[2, 3, 4, 5, 6, 7])


def _cells(figures: dict[str, Any]) -> list[str]:
    times = [tables.minutes(figures[name]) for name in ("gpu_ms", "lost_gpu_ms", "unpriced_gpu_ms")]
    return times + [_amount(figures[name]) for name in ("worth", "cost_of_loss")]


def _amount(amount: str | None) -> str:
    return "unpriced" if amount is None else f"{Decimal(amount):,}"
