"""RFC 5545 rules on the wall clock of a zone: what a rule may be, and when its occurrences begin.

A rule is unfolded in wall time and each occurrence is put on the time line by itself, so that 02:00 stays 02:00 when
the clocks change. The library that unfolds knows no zones here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo

from dateutil.rrule import rrule, rrulestr

from warehouse.model.plan import Plan
from warehouse.model.time import MS_PER_SECOND, at_wall, format_duration, format_instant, to_datetime

# What each frequency may be narrowed by. A daily rule with months or days of the month can be written as a monthly
# or yearly one; written as it is, one that never comes true is searched for until the year 9999.
_DAYTIME = {"BYDAY", "BYHOUR", "BYMINUTE"}
_MONTHLY = _DAYTIME | {"BYMONTH", "BYMONTHDAY", "BYSETPOS"}
_PARTS = {
    "HOURLY": _DAYTIME,
    "DAILY": _DAYTIME,
    "WEEKLY": _DAYTIME,
    "MONTHLY": _MONTHLY,
    "YEARLY": _MONTHLY | {"BYYEARDAY", "BYWEEKNO"},
}
_ALWAYS = {"FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST"}
_RANGES = {
    "INTERVAL": (1, 1_000_000), "COUNT": (1, 1_000_000), "BYHOUR": (0, 23), "BYMINUTE": (0, 59), "BYMONTH": (1, 12),
    "BYMONTHDAY": (1, 31), "BYYEARDAY": (1, 366), "BYWEEKNO": (1, 53), "BYSETPOS": (1, 366),
}  # fmt: skip
_FROM_THE_END = {"BYMONTHDAY", "BYYEARDAY", "BYWEEKNO", "BYSETPOS"}
_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_DAY = re.compile(rf"([+-]?(?:[1-9]|[1-4][0-9]|5[0-3]))?({'|'.join(_DAYS)})")
_UNTIL = re.compile(r"(?a)(\d{8})(?:(T\d{6})(Z)?)?")

_STEP = {"HOURLY": timedelta(hours=1), "DAILY": timedelta(days=1), "WEEKLY": timedelta(weeks=1)}
_DAY_LONG = timedelta(days=1)

# Weekdays and leap years come round in 28 years: what does not overlap by then does not overlap later.
_CHECKED = timedelta(days=28 * 366)
_CHECKED_COUNT = 1_000


def canonical(text: str) -> str:
    """Gives a rule as it is kept: in capitals, without the name of the property.

    Raises:
        ValueError: with a reason fit to print, for what is no RFC 5545 rule or no rule of maintenance.
    """
    plain = text.upper().removeprefix("RRULE:")
    parts = _split(plain)
    frequency = parts.get("FREQ")
    if frequency in ("SECONDLY", "MINUTELY"):
        raise ValueError(f"FREQ={frequency} is too fine for maintenance; HOURLY is the finest")
    if frequency not in _PARTS:
        known = ", ".join(_PARTS)
        raise ValueError(f"'{text[:60]}' is no RFC 5545 rule such as FREQ=WEEKLY;BYDAY=TU; FREQ is one of {known}")
    for name, value in parts.items():
        if name not in _ALWAYS | _PARTS[frequency]:
            known = ", ".join(sorted((_ALWAYS | _PARTS[frequency]) - {"FREQ"}))
            raise ValueError(f"{name[:40]} cannot stand in a rule with FREQ={frequency}; known are {known}")
        _check_value(name, value, frequency)
    if {"COUNT", "UNTIL"} <= parts.keys():
        raise ValueError("has both COUNT and UNTIL, which RFC 5545 forbids; leave one out")
    return plain


def _split(plain: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    for part in plain.split(";"):
        name, equals, value = part.partition("=")
        if not equals or not value:
            raise ValueError(f"'{part[:40]}' is no part of an RFC 5545 rule such as FREQ=WEEKLY;BYDAY=TU")
        if name in parts:
            raise ValueError(f"{name} stands twice in the rule; join its values with commas")
        parts[name] = value
    return parts


def _check_value(name: str, value: str, frequency: str) -> None:
    if name == "WKST" and value not in _DAYS:
        raise ValueError(f"WKST={value[:40]} is none of {', '.join(_DAYS)}")
    if name == "UNTIL":
        _until(value)
    words = value.split(",")
    if name == "BYDAY":
        for word in words:
            found = _DAY.fullmatch(word)
            if found is None or (found[1] and frequency not in ("MONTHLY", "YEARLY")):
                more = " or 2TU, -1FR" if frequency in ("MONTHLY", "YEARLY") else ""
                raise ValueError(f"BYDAY={value[:40]}: '{word[:20]}' is no day such as TU{more}")
    if name in _RANGES:
        low, high = _RANGES[name]
        if len(words) > 1 and name in ("INTERVAL", "COUNT"):
            raise ValueError(f"{name}={value[:40]} must be one number")
        for word in words:
            digits = word[1:] if name in _FROM_THE_END and word[:1] in ("+", "-") else word
            if not re.fullmatch(r"[0-9]{1,7}", digits) or not low <= int(digits) <= high:
                sign = ", or the same from the end with -" if name in _FROM_THE_END else ""
                raise ValueError(f"{name}={value[:40]} is not from {low} to {high}{sign}")


def _until(value: str) -> tuple[datetime, bool, bool]:
    """Gives the wall time of UNTIL, whether it is UTC, and whether it is a date alone."""
    found = _UNTIL.fullmatch(value)
    try:
        if found is None:
            raise ValueError
        return datetime.strptime(found[1] + (found[2] or "T000000"), "%Y%m%dT%H%M%S"), bool(found[3]), not found[2]  # noqa: DTZ007
    except ValueError:
        raise ValueError(f"UNTIL={value[:40]} is no time such as 20261231T235959Z or 20261231") from None


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule with its first occurrence; `until_ms` is the last instant at which one may begin."""

    text: str
    zone: ZoneInfo
    start_ms: int
    first: datetime
    until_ms: int | None
    walls: rrule
    step: timedelta | None

    def starts(self, from_ms: int, to_ms: int) -> list[int]:
        """Gives when occurrences begin in `[from_ms, to_ms)`, in order.

        The cost follows the window and not how long ago the rule began, but for rules with COUNT and those of months
        and years, which are walked from their first.
        """
        low = self._wall(max(from_ms, self.start_ms)) - _DAY_LONG
        last_ms = to_ms if self.until_ms is None else min(to_ms, self.until_ms + 1)
        if last_ms <= from_ms:
            return []
        walls = self._near(low).between(low, self._wall(last_ms) + _DAY_LONG, inc=True)
        # Two wall times that the clocks skipped may be one instant.
        return sorted({at for wall in walls if from_ms <= (at := self._at(wall)) < last_ms})

    def _at(self, wall: datetime) -> int:
        # The first was declared as an instant: of an hour that comes twice it may be the second.
        return self.start_ms if wall == self.first else at_wall(wall, self.zone) + self.start_ms % MS_PER_SECOND

    def _wall(self, at_ms: int) -> datetime:
        return to_datetime(at_ms).astimezone(self.zone).replace(tzinfo=None, fold=0)

    def _near(self, low: datetime) -> rrule:
        """Gives the rule as if it had begun a whole number of its steps later, shortly before `low`."""
        if self.step is None or (skipped := (low - self.first) // self.step - 1) <= 0:
            return self.walls
        return self.walls.replace(dtstart=self.first + skipped * self.step)


@lru_cache(maxsize=4096)
def compile_rule(text: str, timezone: str, start_ms: int) -> Rule:
    """Gives the rule of a plan, from its canonical text."""
    parts = _split(text)
    zone = ZoneInfo(timezone)
    first = to_datetime(start_ms - start_ms % MS_PER_SECOND).astimezone(zone).replace(tzinfo=None, fold=0)
    until_ms = None
    if "UNTIL" in parts:
        wall, utc, date = _until(parts["UNTIL"])
        wall = wall + _DAY_LONG if date else wall
        until_ms = at_wall(wall, ZoneInfo("UTC") if utc else zone) - (1 if date else 0)
    walls = rrulestr(";".join(f"{n}={v}" for n, v in parts.items() if n != "UNTIL"), dtstart=first)
    assert isinstance(walls, rrule)  # a set only where several rules are given
    step = None if "COUNT" in parts else _STEP.get(parts["FREQ"])
    step = None if step is None else step * int(parts.get("INTERVAL", "1"))
    return Rule(text, zone, start_ms, first, until_ms, walls, step)


def occurrences(plan: Plan, from_ms: int, to_ms: int) -> list[int]:
    """Gives when occurrences of a plan begin in `[from_ms, to_ms)`, in order."""
    if plan.rrule is None:
        return [plan.start_ms] if from_ms <= plan.start_ms < to_ms else []
    assert plan.timezone is not None
    return compile_rule(plan.rrule, plan.timezone, plan.start_ms).starts(from_ms, to_ms)


def check_rule(text: str, timezone: str, start_ms: int, length_ms: int) -> None:
    """Refuses a rule that does not fit its first occurrence.

    Raises:
        ValueError: with a reason fit to print: the rule yields nothing, does not begin with the first occurrence,
            ends before it, or its occurrences run into each other.
    """
    try:
        rule = compile_rule(text, timezone, start_ms)
    except ValueError as exc:
        raise ValueError(f"yields nothing: {exc}") from None
    if rule.until_ms is not None and rule.until_ms < start_ms:
        raise ValueError(f"UNTIL is before the start {format_instant(start_ms)}; nothing would be left")
    said = f"{rule.first.isoformat()} in {timezone}, a {rule.first:%A}"
    first = next(iter(rule.walls), None) if _may_begin(rule) else rule.first + _DAY_LONG
    if first is None:
        raise ValueError("yields nothing: no day of the calendar fits it")
    if first != rule.first:
        raise ValueError(f"does not give the first occurrence, {said}; mend the start or the rule")
    walls = takewhile(lambda wall: wall <= rule.first + _CHECKED, islice(iter(rule.walls), _CHECKED_COUNT))
    gap = min((later - earlier for earlier, later in pairwise(walls)), default=None)
    gap_ms = None if gap is None else gap // timedelta(milliseconds=1)
    if gap_ms is not None and length_ms > gap_ms:
        said = f"an occurrence of {format_duration(length_ms)} has not ended when the next begins, "
        raise ValueError(f"{said}{format_duration(gap_ms)} after it; shorten the window or thin the rule")


def _may_begin(rule: Rule) -> bool:
    """Tells whether days and hours admit the first occurrence; without it some rules would be searched for ever."""
    parts = _split(rule.text)
    days, hours = parts.get("BYDAY"), parts.get("BYHOUR")
    if parts["FREQ"] in ("MONTHLY", "YEARLY"):
        return True
    fits = days is None or _DAYS[rule.first.weekday()] in days.split(",")
    return fits and (hours is None or rule.first.hour in map(int, hours.split(",")))
