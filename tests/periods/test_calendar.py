"""Months and days of a site's own calendar, across the changes of its clocks."""

from __future__ import annotations

from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from warehouse.model.time import MS_PER_HOUR, format_instant
from warehouse.store.periods import month_after, month_days, month_of, month_window, read_code


@pytest.mark.parametrize(
    ("code", "zone", "hours", "odd_day", "odd_hours"),
    [
        ("2026-03", "America/New_York", 743, "2026-03-08", 23),
        ("2026-11", "America/New_York", 721, "2026-11-01", 25),
        ("2026-03", "Europe/Berlin", 743, "2026-03-29", 23),
        ("2026-10", "Europe/Berlin", 745, "2026-10-25", 25),
        ("2026-02", "Europe/Berlin", 672, None, None),
        ("2024-02", "UTC", 696, None, None),
        ("2025-04", "Africa/Cairo", 719, "2025-04-25", 23),  # the clocks go forward at midnight
        ("2011-12", "Pacific/Apia", 720, None, None),  # the 30th never was
    ],
)
def test_a_month_is_as_long_as_its_clocks_say(
    code: str, zone: str, hours: int, odd_day: str | None, odd_hours: int | None
) -> None:
    window = month_window(code, ZoneInfo(zone))
    assert window.length_ms == hours * MS_PER_HOUR
    days = month_days(window, ZoneInfo(zone))
    assert days[0][1].start_ms == window.start_ms and days[-1][1].end_ms == window.end_ms
    assert all(one[1].end_ms == other[1].start_ms for one, other in pairwise(days))
    odd = {day: w.length_ms // MS_PER_HOUR for day, w in days if w.length_ms != 24 * MS_PER_HOUR}
    assert odd == ({} if odd_day is None else {odd_day: odd_hours})


def test_the_months_of_two_zones_begin_at_their_own_midnights() -> None:
    assert format_instant(month_window("2026-10", ZoneInfo("Europe/Berlin")).start_ms) == "2026-09-30T22:00:00Z"
    assert format_instant(month_window("2026-10", ZoneInfo("America/New_York")).start_ms) == "2026-10-01T04:00:00Z"
    at = month_window("2026-10", ZoneInfo("Europe/Berlin")).start_ms
    assert month_of(at, ZoneInfo("Europe/Berlin")) == "2026-10"
    assert month_of(at, ZoneInfo("America/New_York")) == "2026-09"


def test_codes() -> None:
    assert month_after("2026-12") == "2027-01"
    assert month_after("2026-09") == "2026-10"
    assert read_code("2026-10") == "2026-10"
    for wrong in ("2026-13", "2026-1", "2026-00", "0001-01", "9998-12", "2026-10\n", "２０２６-10", "october", ""):
        with pytest.raises(ValueError, match="is no month such as 2026-10"):
            read_code(wrong)
