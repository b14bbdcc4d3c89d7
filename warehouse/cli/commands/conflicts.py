"""gpu-minutes conflicts: time that several jobs claim, together above the whole GPU."""

from __future__ import annotations

import click

from warehouse import views
from warehouse.cli import edge, tables
from warehouse.model.time import format_instant
from warehouse.views.conflicts import Conflict, conflicts, share

_NAMED = 4


@click.command("conflicts")
@click.option("--from", "start", metavar="T", help="Start of the window (default: first commissioning).")
@click.option("--to", "end", metavar="T", help="End of the window (default: what is booked).")
@edge.reading_options
def COMMAND(start: str | None, end: str | None, form: str, as_of: int | None) -> None:
    """Lists contested time: jobs that together claim more than the whole GPU, so that none of them holds it."""
    with edge.reading(as_of) as (connection, revision):
        zone = edge.site_zone(connection, revision.rev)
        times = edge.time_option(start, "--from", zone), edge.time_option(end, "--to", zone)
        question = views.ask(connection, revision, *times)
        found = conflicts(connection, revision.rev, question.window)
    columns = ["scope", "gpus", "start", "end", "gpu_ms", "jobs", "claimed"]
    rows = [
        [
            "+".join(c.scope), c.gpu_ms // (c.end_ms - c.start_ms), format_instant(c.start_ms),
            format_instant(c.end_ms), c.gpu_ms, parties(c), share(c.claimed_ppm),
        ]
        for c in found
    ]  # fmt: skip
    total = sum(c.gpu_ms for c in found)
    document = {
        "window": {"from": format_instant(question.window.start_ms), "to": format_instant(question.window.end_ms)},
        "revision": revision.rev,
        "provisional": question.provisional,
        "contested_gpu_ms": total,
        "conflicts": [
            dict(zip(columns, row, strict=True))
            | {
                "scope": list(c.scope),
                "slots": [list(part) for part in c.slots],
                "jobs": [{"job": job, "share": share(ppm)} for job, ppm in c.jobs],
            }
            for c, row in zip(found, rows, strict=True)
        ],
    }
    edge.show(form, document, columns, rows, _table(found, total, revision.rev))


def parties(conflict: Conflict) -> str:
    """Gives the jobs with their shares, in words."""
    return ", ".join(f"{job} ({'whole' if share(ppm) == '1' else share(ppm)})" for job, ppm in conflict.jobs)


def where(conflict: Conflict) -> str:
    """Gives the places by name while they are few, else the first ones and how many more."""
    more = len(conflict.scope) - _NAMED
    return "+".join(conflict.scope[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _table(found: list[Conflict], total: int, rev: int) -> str:
    head = ["where", "from", "to", "GPU-minutes", "jobs", "claimed of each GPU"]
    shown = [
        [
            where(c), format_instant(c.start_ms), format_instant(c.end_ms), tables.minutes(c.gpu_ms), parties(c),
            share(c.claimed_ppm),
        ]
        for c in found
    ]  # fmt: skip
    if not found:
        return f"no contested time; revision {rev}"
    stretches = "1 stretch" if len(found) == 1 else f"{len(found)} stretches"
    return (
        tables.table(head, shown, right=[3, 5])
        + f"\n{stretches}, {tables.minutes(total)} GPU-minutes contested; revision {rev}"
    )
