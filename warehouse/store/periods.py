"""Closed months: whose money is final, since when, and the calendar that cuts them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, text

from warehouse.model.fleet import Site
from warehouse.model.time import Window, from_datetime, to_datetime
from warehouse.store.rows import milliseconds, revisions_from, span

_CODE = re.compile(r"(?a)(19[7-9]\d|[2-9]\d{3})-(0[1-9]|1[0-2])")
LAST_CODE = "9998-11"


@dataclass(frozen=True, slots=True)
class Period:
    """A month of one site's own calendar that was closed; `closed_at_ms` is None while its revision is being written.

    `window` reaches from local midnight to local midnight, so that a month may lack or gain an hour.
    """

    site_id: int
    site: str
    code: str
    timezone: str
    window: Window
    closed_by: str
    reason: str
    rev: int
    closed_at_ms: int | None


def closed_months(connection: Connection, rev: int) -> list[Period]:
    """Gives the months that were closed at a revision, by site and month."""
    rows = connection.execute(
        text(
            "select p.site_id, s.name as site, p.code, p.timezone, ms_of(lower(p.during)) as start_ms, "
            "ms_of(upper(p.during)) as end_ms, p.closed_by, p.reason, lower(p.revs) as rev, r.recorded_at "
            "from period p join place s on s.id = p.site_id left join revision r on r.rev = lower(p.revs) "
            "where p.revs @> cast(:rev as bigint) order by s.name, p.code"
        ),
        {"rev": rev},
    )
    return [
        Period(
            r.site_id, r.site, r.code, r.timezone, Window(r.start_ms, r.end_ms), r.closed_by, r.reason, r.rev,
            milliseconds(r.recorded_at),
        )
        for r in rows
    ]  # fmt: skip


def add(connection: Connection, site: Site, code: str, closed_by: str, reason: str, rev: int) -> None:
    """Closes a month: from here on the database refuses any posting into it or into a month before it."""
    window = month_window(code, ZoneInfo(site.timezone))
    connection.execute(
        text(
            "insert into period (site_id, code, timezone, during, closed_by, reason, revs) "
            "values (:site, :code, :zone, :during, :by, :reason, :revs)"
        ),
        {
            "site": site.id,
            "code": code,
            "zone": site.timezone,
            "during": span(window.start_ms, window.end_ms),
            "by": closed_by,
            "reason": reason,
            "revs": revisions_from(rev),
        },
    )


def read_code(code: str) -> str:
    """Reads the code of a month, such as 2026-10.

    Raises:
        ValueError: with a reason fit to print.
    """
    if not _CODE.fullmatch(code) or code > LAST_CODE:
        raise ValueError(f"'{code[:40]}' is no month such as 2026-10")
    return code


def month_after(code: str) -> str:
    """Gives the code of the month that follows."""
    year, month = int(code[:4]), int(code[5:])
    return f"{year + month // 12:04}-{month % 12 + 1:02}"


def month_before(code: str) -> str:
    """Gives the code of the month before."""
    year, month = int(code[:4]), int(code[5:])
    return f"{year - (month == 1):04}-{(month - 2) % 12 + 1:02}"


def month_of(at_ms: int, zone: ZoneInfo) -> str:
    """Gives the month of the zone's calendar that an instant lies in."""
    return to_datetime(at_ms).astimezone(zone).strftime("%Y-%m")


def month_window(code: str, zone: ZoneInfo) -> Window:
    """Gives a month from local midnight to local midnight: 743 hours where the clocks go forward in it."""
    following = month_after(code)
    start, end = (datetime(int(c[:4]), int(c[5:]), 1, tzinfo=zone) for c in (code, following))
    return Window(from_datetime(start), from_datetime(end))


def month_days(window: Window, zone: ZoneInfo) -> list[tuple[str, Window]]:
    """Gives the days of a month by the zone's calendar, each from midnight to midnight: of 23 to 25 hours."""
    days = []
    at = to_datetime(window.start_ms).astimezone(zone).replace(tzinfo=None)
    while (start_ms := _midnight(at, zone)) < window.end_ms:
        following = at + timedelta(days=1)
        end_ms = _midnight(following, zone)
        if start_ms < end_ms:  # a zone that moved across the date line has a date that never was
            days.append((at.strftime("%Y-%m-%d"), Window(start_ms, end_ms)))
        at = following
    return days


def touched_days(period: Period, spans: Iterable[tuple[int, int | None]]) -> list[tuple[str, Window]]:
    """Gives the days of a closed month that the spans touch; an instant touches its day."""
    found = [
        (start, period.window.end_ms if end is None else max(end, start + 1))
        for start, end in spans
        if start < period.window.end_ms and (end is None or end >= period.window.start_ms)
    ]
    if not found:
        return []
    days = month_days(period.window, ZoneInfo(period.timezone))
    return [(day, w) for day, w in days if any(start < w.end_ms and end > w.start_ms for start, end in found)]


def _midnight(day: datetime, zone: ZoneInfo) -> int:
    return from_datetime(datetime(day.year, day.month, day.day, tzinfo=zone))
