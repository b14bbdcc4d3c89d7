"""Law 1 in sums: on every day the entries have the area of tenure, to the millisecond."""

from __future__ import annotations

from collections import Counter

from sqlalchemy import Connection, text

from warehouse.model.slots import count
from warehouse.model.time import MS_PER_DAY, format_instant
from warehouse.store import fleet
from warehouse.store.revisions import Revision
from warehouse.views.proofs.places import booked_span


def conserved(connection: Connection, revision: Revision) -> str | None:
    """Compares the booked area with the installed one, by UTC day."""
    booked = {
        row.day: int(row.gpu_ms)
        for row in connection.execute(
            text(
                "select ms_of(lower(during)) / :day as day, sum((upper(slots) - lower(slots))::numeric * "
                "span_ms(during)) as gpu_ms from ledger_entry where revs @> cast(:rev as bigint) group by 1"
            ),
            {"day": MS_PER_DAY, "rev": revision.rev},
        )
    }
    installed = _installed_by_day(connection, revision)
    for day in sorted(booked.keys() | installed.keys()):
        if booked.get(day, 0) != installed.get(day, 0):
            return (
                f"on the day of {format_instant(day * MS_PER_DAY)} {booked.get(day, 0)} GPU-ms are booked and "
                f"{installed.get(day, 0)} installed"
            )
    return None


def _installed_by_day(connection: Connection, revision: Revision) -> dict[int, int]:
    span = booked_span(connection, revision)
    if span is None:
        return {}
    gpus: Counter[tuple[int, int]] = Counter()
    for block in fleet.tenure_blocks(connection, revision.rev):
        end_ms = span.end_ms if block.end_ms is None else min(block.end_ms, span.end_ms)
        gpus[block.start_ms, end_ms] += count(block.slots)
    found: dict[int, int] = {}
    for (start_ms, end_ms), number in gpus.items():
        for day in range(start_ms // MS_PER_DAY, -(-end_ms // MS_PER_DAY)):
            inside = min(end_ms, (day + 1) * MS_PER_DAY) - max(start_ms, day * MS_PER_DAY)
            found[day] = found.get(day, 0) + number * inside
    return {day: area for day, area in found.items() if area}
