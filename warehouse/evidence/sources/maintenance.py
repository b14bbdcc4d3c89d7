"""maintenance.csv: windows of planned maintenance as they were declared, once or by an RFC 5545 rule."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from datetime import datetime
from zoneinfo import ZoneInfo, available_timezones

from warehouse.evidence import cells
from warehouse.evidence.csv_file import Row
from warehouse.evidence.sources import Source
from warehouse.evidence.statements import read_statements
from warehouse.model.plan import LONGEST_MS, MARK, Plan
from warehouse.model.statement import Batch
from warehouse.model.time import MS_PER_DAY, at_wall, parse_instant, parse_wall, to_datetime
from warehouse.plans.rule import canonical, check_rule

REQUIRED = ("id", "start", "end", "scope", "declared_at", "what")
OPTIONAL = ("timezone", "rrule", "actual_end")


def read(path: str, zone: ZoneInfo, options: Mapping[str, object]) -> Batch:
    """Reads the file whole; `zone` is where a date is midnight when the row names no zone of its own."""
    return read_statements(path, REQUIRED, OPTIONAL, lambda row: _plan(row, zone))


def timezone(text: str) -> ZoneInfo:
    """Reads an IANA time zone name such as America/New_York."""
    known = available_timezones()
    if text in known:
        return ZoneInfo(text)
    by_letters = {name.lower().replace("_", ""): name for name in known}
    near = difflib.get_close_matches(text.lower().replace("_", "").replace(" ", ""), by_letters, n=2)
    hint = " or ".join(by_letters[name] for name in near)
    raise ValueError(
        f"'{text[:60]}' is no IANA time zone; {f'did you mean {hint}?' if hint else 'such is Europe/Berlin'}"
    )


def _key(text: str) -> str:
    key = cells.short_text(text)
    if MARK in key:
        raise ValueError(f"'{key[:60]}' holds '{MARK}', which stands between an id and the start of an occurrence")
    return key


def _plan(row: Row, site_zone: ZoneInfo) -> Plan | None:
    key = row.read("id", _key)
    scope, what = (row.read(column, cells.short_text) for column in ("scope", "what"))
    zone = row.read_optional("timezone", timezone)
    if row["timezone"] and zone is None:
        return None  # times cannot be read without it; one line is enough
    start, end, declared = (
        row.read(column, lambda text: _moment(text, zone, site_zone)) for column in ("start", "end", "declared_at")
    )
    actual_end = row.read_optional("actual_end", lambda text: _moment(text, zone, site_zone))
    rrule = row.read_optional("rrule", canonical)
    if start is not None and end is not None:
        _check_span(row, start, end)
    if start is not None and actual_end is not None and actual_end < start:
        row.fault("actual_end", f"{row['actual_end']} is before the start {row['start']}; the same as it calls it off")
    if not row.findings and rrule is not None and start is not None and end is not None:
        _check_rule(row, rrule, zone, start, end)
    if row.findings or start is None or end is None or declared is None:
        return None
    assert key and scope and what
    return Plan(key, start, end, scope, (), declared, what, row["timezone"] or None, rrule, actual_end)


def _moment(text: str, zone: ZoneInfo | None, site_zone: ZoneInfo) -> int:
    """Reads an instant with offset, a wall time of the row's zone, or a date, which is a midnight."""
    wall = parse_wall(text)
    if wall is None:
        return parse_instant(text, zone or site_zone)
    if zone is None:
        raise ValueError(f"'{text}' has no offset from UTC; add Z or +HH:MM, or name the row's timezone")
    return at_wall(wall, zone)


def _check_span(row: Row, start_ms: int, end_ms: int) -> None:
    if end_ms <= start_ms:
        row.fault("end", f"{row['end']} is not after the start {row['start']}; swap them or mend one")
    elif end_ms - start_ms > LONGEST_MS:
        days = LONGEST_MS // MS_PER_DAY
        row.fault("end", f"is more than {days} days after the start; a window that long is capacity taken away")


def _check_rule(row: Row, rrule: str, zone: ZoneInfo | None, start_ms: int, end_ms: int) -> None:
    if zone is None:
        row.fault("timezone", "is blank; a rule needs the zone whose clock it follows, such as America/New_York")
        return
    if row["actual_end"]:
        row.fault("actual_end", "cannot stand beside a rule; declare the occurrence that ended otherwise by itself")
    if (wall := _wall(row["start"])) is not None and _wall_of(start_ms, zone) != wall:
        said = f"{row['start']} is skipped by the clocks of {zone.key} on that day"
        row.fault("start", f"{said}; begin the rule with an occurrence that they show")
        return
    try:
        check_rule(rrule, zone.key, start_ms, end_ms - start_ms)
    except ValueError as exc:
        row.fault("rrule", str(exc))


def _wall(text: str) -> datetime | None:
    """Gives the wall time that a cell names, a date's midnight among them; None where it names an instant."""
    return parse_wall(f"{text}T00:00") or parse_wall(text)


def _wall_of(at_ms: int, zone: ZoneInfo) -> datetime:
    return to_datetime(at_ms).astimezone(zone).replace(tzinfo=None, fold=0)


SOURCE = Source("maintenance", "maintenance.csv: windows of planned maintenance, once or by a rule", read)
