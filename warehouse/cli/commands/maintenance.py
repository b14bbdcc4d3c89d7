"""gpu-minutes maintenance: the declared windows, and what became of them."""

from __future__ import annotations

from typing import Any

import click

from warehouse import views
from warehouse.cli import edge, tables

COLUMNS = [
    "id", "start", "end", "timezone", "start_local", "end_local", "rrule", "scope", "gpus", "declared_at",
    "declared_late", "what", "actual_end", "planned_gpu_ms", "overrun_gpu_ms",
]  # fmt: skip


@click.group("maintenance")
def COMMAND() -> None:
    """Declared windows of maintenance; bring them in with: gpu-minutes import maintenance FILE."""


@COMMAND.command("list")
@click.option("--from", "start", metavar="T", help="Start of the window (default: first commissioning).")
@click.option("--to", "end", metavar="T", help="End of the window (default: 28 days past what is booked).")
@edge.reading_options
def list_(start: str | None, end: str | None, form: str, as_of: int | None) -> None:
    """Lists every occurrence of every window, past and to come, in UTC and on the clock of its zone.

    planned: GPU time that the ledger books as this window's maintenance. overrun: GPU time that its work, or a fault
    that began inside it, cost past its declared end. Both are blank until the booking reaches the window.
    """
    with edge.reading(as_of) as (connection, revision):
        zone = edge.site_zone(connection, revision.rev)
        times = edge.time_option(start, "--from", zone), edge.time_option(end, "--to", zone)
        answer: dict[str, Any] = views.maintenance(connection, revision, *times)
    found = answer["windows"]
    rows = [[window[column] for column in COLUMNS] for window in found]
    edge.show(form, answer, COLUMNS, rows, _table(answer))


def _table(answer: dict[str, Any]) -> str:
    found = answer["windows"]
    shown = [
        [
            w["id"], w["start"], w["end"], _clock(w["start_local"], w["end_local"]), w["timezone"], w["scope"],
            w["gpus"], f"{w['declared_at']}{' late' if w['declared_late'] else ''}", w["actual_end"] or "",
            _minutes(w["planned_gpu_ms"]), _minutes(w["overrun_gpu_ms"]), w["what"],
        ]
        for w in found
    ]  # fmt: skip
    head = [
        "id", "start", "end", "wall time", "zone", "scope", "GPUs", "declared", "actual end", "planned GPU-minutes",
        "overrun GPU-minutes", "what",
    ]  # fmt: skip
    window = answer["window"]
    lines = [f"{window['from']} to {window['to']}, revision {answer['revision']}", ""]
    lines.append(tables.table(head, shown, right=[6, 9, 10]) if found else "no window of maintenance")
    foot = f"{len(found)} windows"
    ahead = sum(w["planned_gpu_ms"] is None for w in found)
    foot += f", {ahead} of them not booked yet" if ahead else ""
    foot += f"; declared to begin later: {answer['later']} (a later --to shows them)" if answer["later"] else ""
    return "\n".join([*lines, "", foot])


def _clock(start: str, end: str) -> str:
    """Gives both wall times as short as they are clear: 2026-03-10 02:00 to 04:00 -04:00."""
    (first, first_offset), (last, last_offset) = _parted(start), _parted(end)
    if first_offset != last_offset:
        return f"{first} {first_offset} to {last} {last_offset}"
    return f"{first} to {last.removeprefix(first[:11])} {last_offset}"


def _parted(local: str) -> tuple[str, str]:
    """Gives a local time, without seconds where it has none, and its offset."""
    return local[:-6].replace("T", " ").removesuffix(":00"), local[-6:]


def _minutes(gpu_ms: int | None) -> str:
    return "" if gpu_ms is None else tables.minutes(gpu_ms)
