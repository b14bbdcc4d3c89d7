"""gpu-minutes close: make the money of a month final."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import click

from warehouse import views
from warehouse.acts import close as act
from warehouse.cli import edge, tables


@click.command("close")
@click.argument("code", metavar="YYYY-MM")
@click.option("--site", metavar="NAME", help="One site (default: every site, all of them or none).")
@click.option("--reason", metavar="TEXT", default="the month is over", show_default=True, help="For the books.")
def COMMAND(code: str, site: str | None, reason: str) -> None:
    """Closes a month: posts its money by every rate card, and freezes it for ever.

    The month is that of each site's own calendar, from local midnight to local midnight. What is learned later about
    it is posted as corrections in the month that is open then. Months are closed in order and leave
    no gap; books that began late may grow backwards, month by month.
    """
    engine = edge.open_ledger()
    done = act.close(engine, code, edge.act("close", reason), site)
    with edge.reading(done.rev) as (connection, revision):
        answer: dict[str, Any] = views.period_books(connection, revision, code, site, None, "class")
    places = [place for place in answer["sites"] if place["site"] in done.sites]
    used = [(place, usage, book) for place in places for book in place["books"] if (usage := _usage(book)) is not None]
    rows = [_row(place["site"], book, usage) for place, usage, book in used]
    columns = ["site", "card", "installed", "unplanned", "planned", "overhead", "cost of loss", "unused", "unknown",
               "unpriced"]  # fmt: skip
    for place in places:
        click.echo(
            f"{code} of site {place['site']} is closed: {place['from']} to {place['to']} "
            f"({place['hours']} h in {place['timezone']})"
        )
    for name in done.without_fleet:
        click.echo(f"{code} of site {name}: no GPU was installed, nothing to close")
    click.echo()
    click.echo(tables.table(columns, rows, right=range(2, len(columns))))
    click.echo(
        f"installed and unpriced in GPU-minutes, all else in money; {done.rows} rows posted; revision {done.rev}"
    )
    for place, usage, book in used:
        unpriced = tables.minutes(usage["unpriced_gpu_ms"])
        if usage["unpriced_gpu_ms"]:
            click.echo(
                f"gpu-minutes: site {place['site']}, card {book['card']}: {unpriced} GPU-minutes have no price; "
                "gpu-minutes rates reprice FILE --reason TEXT posts one later, as corrections",
                err=True,
            )


def _usage(book: dict[str, Any]) -> dict[str, Any] | None:
    return next((charge for charge in book["charges"] if charge["kind"] == "usage"), None)


def _row(site: str, book: dict[str, Any], usage: dict[str, Any]) -> list[str]:
    by_class = {row["key"]: row for row in usage["rows"]}
    nothing = None if usage["worth"] is None else str(Decimal(usage["worth"]) * 0)

    def money(name: str, figure: str) -> str:
        return tables.money(by_class[name][figure] if name in by_class else nothing, book["currency"])

    return [
        site,
        book["card"],
        tables.minutes(usage["gpu_ms"]),
        *(money(name, "cost_of_loss") for name in ("unplanned", "planned", "overhead")),
        tables.money(usage["cost_of_loss"], book["currency"]),
        *(money(name, "worth") for name in ("unused", "unknown")),
        tables.minutes(usage["unpriced_gpu_ms"]),
    ]
