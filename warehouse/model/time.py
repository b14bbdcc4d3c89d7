"""Instants and windows: integer milliseconds since 1970-01-01T00:00:00Z, windows half-open.

One representation everywhere: a float would lose the law of conservation, a naive datetime would lose the zone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

MS_PER_SECOND = 1_000
MS_PER_MINUTE = 60_000
MS_PER_HOUR = 3_600_000
MS_PER_DAY = 86_400_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RFC3339 = re.compile(r"(?a)\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})")
_NAIVE = re.compile(r"(?a)\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?")
_DATE = re.compile(r"(?a)\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """A half-open span `[start_ms, end_ms)` in UTC milliseconds; never empty, never negative.

    Raises:
        ValueError: when `start_ms >= end_ms`.
    """

    start_ms: int
    end_ms: int

    def __post_init__(self) -> None:
        if self.start_ms >= self.end_ms:
            raise ValueError(f"a window must end after it starts: [{self.start_ms}, {self.end_ms})")

    @property
    def length_ms(self) -> int:
        """Gives the length in milliseconds, always positive."""
        return self.end_ms - self.start_ms


def from_datetime(moment: datetime) -> int:
    """Gives the millisecond of an aware datetime.

    Raises:
        ValueError: for a naive datetime, or one that is no whole millisecond.
    """
    if moment.tzinfo is None:
        raise ValueError("a time without an offset names no instant")
    if moment.microsecond % 1000:
        raise ValueError("finer than a millisecond")
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def to_datetime(at_ms: int) -> datetime:
    """Gives the aware UTC datetime of a millisecond."""
    return _EPOCH + timedelta(milliseconds=at_ms)


# Nothing that this ledger can hold lies outside; what does is a typing error or a way to say "never".
FIRST_MS = 0
LAST_MS = 253_370_764_800_000  # 9999-01-01T00:00:00Z


def parse_instant(text: str, zone: ZoneInfo | None = None) -> int:
    """Reads an RFC 3339 time with offset, or a date, which is that day's midnight in `zone` (default UTC).

    Returns:
        Milliseconds since the epoch.

    Raises:
        ValueError: with a reason fit to print, for anything else; a time without an offset is refused, not guessed.
    """
    if _NAIVE.fullmatch(text):
        raise ValueError(f"'{text}' has no offset from UTC; add Z or +HH:MM")
    try:
        at_ms = _read_date(text, zone) if _DATE.fullmatch(text) else _read_time(text)
    except OverflowError:
        at_ms = LAST_MS + 1
    if not FIRST_MS <= at_ms <= LAST_MS:
        raise ValueError(f"'{text}' lies outside 1970 to 9998; where it means never or still open, leave it blank")
    return at_ms


def parse_wall(text: str) -> datetime | None:
    """Reads a wall-clock time without an offset, such as 2026-03-08T02:30; None for what has another form.

    Raises:
        ValueError: with a reason fit to print, for a time that no calendar has or finer than a millisecond.
    """
    if not _NAIVE.fullmatch(text):
        return None
    digits = text.replace(" ", "T").upper()
    digits = digits if digits.count(":") == 2 else f"{digits}:00"
    return to_datetime(_read_time(f"{digits}Z")).replace(tzinfo=None)


def at_wall(wall: datetime, zone: ZoneInfo) -> int:
    """Gives the millisecond at which a zone's clocks show a time.

    As RFC 5545 has it: a time that the clocks skip is read by the offset before the gap, so 02:30 is half an hour
    after 02:00; of a time that they show twice the first is meant.
    """
    return from_datetime(wall.replace(tzinfo=zone, fold=0))


def _read_date(text: str, zone: ZoneInfo | None) -> int:
    try:
        day = date.fromisoformat(text)
    except ValueError as exc:
        raise ValueError(f"'{text}' is no date of the calendar") from exc
    return from_datetime(datetime(day.year, day.month, day.day, tzinfo=zone or UTC))


def _read_time(text: str) -> int:
    if not _RFC3339.fullmatch(text):
        raise ValueError(f"'{text[:60]}' is not an RFC 3339 time such as 2026-10-01T12:00:00Z")
    digits = text.replace(" ", "T").upper()
    fraction = re.search(r"\.(\d+)", digits)
    if fraction and fraction.group(1)[3:].strip("0"):
        raise ValueError(f"'{text}' is finer than a millisecond; round it to three decimals")
    if fraction:
        digits = digits.replace(fraction.group(0), "." + fraction.group(1)[:3].ljust(3, "0"))
    try:
        moment = datetime.fromisoformat(digits)
    except ValueError as exc:
        raise ValueError(f"'{text}' is no time of the calendar") from exc
    return from_datetime(moment)


def format_instant(at_ms: int) -> str:
    """Gives RFC 3339 in UTC with `Z`, with milliseconds only where they are not zero."""
    text = to_datetime(at_ms).replace(tzinfo=None).isoformat(timespec="seconds")
    milliseconds = at_ms % MS_PER_SECOND
    return f"{text}.{milliseconds:03d}Z" if milliseconds else f"{text}Z"


def day_cuts(window: Window) -> list[int]:
    """Gives every UTC midnight strictly inside the window, in milliseconds."""
    first = (window.start_ms // MS_PER_DAY + 1) * MS_PER_DAY
    return list(range(first, window.end_ms, MS_PER_DAY))


def format_duration(length_ms: int) -> str:
    """Gives a length for people, two units at most: `3 d 4 h`, `12 min 5 s`, `0 s`."""
    rest = length_ms // MS_PER_SECOND
    parts = []
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, seconds)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"
