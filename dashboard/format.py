"""How figures, names and times are written on a page. Pure; unknown is a dash, never a zero."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from html import escape
from typing import Any

from warehouse.model.state import GpuTimeClass, State
from warehouse.model.time import MS_PER_MINUTE, format_duration, parse_instant, to_datetime

DASH = "-"
Writer = Callable[[str | Decimal | None, str | None], str]
_SYMBOLS = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥"}
_UNITS = ((Decimal(10) ** 9, "B"), (Decimal(10) ** 6, "M"), (Decimal(10) ** 3, "k"))
_STATE_WORDS = {
    State.PRODUCTIVE: "Good",
    State.IDLE_ALLOCATED: "Idle, allocated",
    State.IDLE_BLOCKED: "Idle, blocked",
    State.LOST_WORK: "Lost work",
}
_CLASS_WORDS = {GpuTimeClass.GOOD: "", GpuTimeClass.UNKNOWN: "not observed"}
_SPECIAL = str.maketrans({letter: "\\" + letter for letter in "\\`*_{}[]<>#|$~:&"})


def short(value: Decimal) -> str:
    """Gives a number in three digits and a unit: `37.2 M`, `840 k`, `12.5`."""
    size = abs(value)
    for unit, letter in _UNITS:
        # 999,950 would be written `1000 k`.
        if size >= unit - unit / 2000:
            return f"{_three(value / unit)} {letter}"
    return _three(value)


def _three(value: Decimal) -> str:
    digits = 0 if abs(value) >= Decimal("99.95") or value == value.to_integral_value() else 1
    if abs(value) < Decimal("9.995") and digits:
        digits = 2
    return f"{value:.{digits}f}"


def short_minutes(gpu_ms: int) -> str:
    """Gives GPU-milliseconds as GPU-minutes in three digits."""
    return short(Decimal(gpu_ms) / MS_PER_MINUTE)


def money(amount: str | Decimal | None, currency: str | None) -> str:
    """Gives an amount in full, or a dash where no price is known."""
    if amount is None or currency is None:
        return DASH
    return _signed(f"{abs(Decimal(amount)):,}", Decimal(amount), currency)


def short_money(amount: str | Decimal | None, currency: str | None) -> str:
    """Gives an amount in three digits, or a dash where no price is known."""
    if amount is None or currency is None:
        return DASH
    return _signed(short(abs(Decimal(amount))), Decimal(amount), currency)


def cost(row: Mapping[str, Any], currency: str | None, write: Writer = money) -> str:
    """Gives what a row of an answer costs; amounts in several currencies stand beside each other, never added."""
    if "costs" in row:
        return " + ".join(write(amount, name) for name, amount in row["costs"].items()) or DASH
    return write(row["cost_of_loss"], currency)


def _signed(text: str, amount: Decimal, currency: str) -> str:
    sign = "-" if amount < 0 else ""
    symbol = _SYMBOLS.get(currency)
    return f"{sign}{symbol}{text}" if symbol else f"{sign}{text} {currency}"


def percent(ratio: str | None) -> str:
    """Gives a ratio as a percentage with two decimals, or a dash where there is none."""
    return DASH if ratio is None else f"{Decimal(ratio) * 100:.2f} %"


def share(part: int, whole: int) -> str:
    """Gives part / whole as a percentage that is only 0 or 100 where that is exactly so; a dash without a whole."""
    if not whole:
        return DASH
    if not part:
        return "0 %"
    value = Decimal(100 * part) / whole
    if 0 < value < Decimal("0.01"):
        return "< 0.01 %"
    if Decimal("99.99") < value < 100:
        return "> 99.99 %"
    digits = 2 if value < 10 or value > 90 else 1
    return "100 %" if value == 100 else f"{value:.{digits}f} %"


def instant(text: str | None, missing: str = "open") -> str:
    """Gives an RFC 3339 instant for people, in UTC to the minute: `13 Mar 2025 23:30Z`."""
    if text is None:
        return missing
    moment = to_datetime(parse_instant(text))
    return f"{moment.day} {moment:%b %Y %H:%M}Z"


def day(text: str) -> str:
    """Gives the UTC day of an instant: `13 Mar 2025`."""
    moment = to_datetime(parse_instant(text))
    return f"{moment.day} {moment:%b %Y}"


def bucket(key: str, by: str) -> str:
    """Gives a day or month of the calendar for an axis: `1 Nov 26`, `Nov 26`."""
    moment = date.fromisoformat(key if by == "day" else f"{key}-01")
    return f"{moment.day} {moment:%b %y}" if by == "day" else f"{moment:%b %y}"


def duration(length_ms: int | None) -> str:
    """Gives a length for people, `still open` where it has no end yet."""
    return "still open" if length_ms is None else format_duration(length_ms)


def state(name: str) -> str:
    """Gives the words for a state."""
    found = State(name)
    return _STATE_WORDS.get(found, found.value.capitalize())


def part(gpu_class: GpuTimeClass, name: State) -> str:
    """Gives the words for one step of the bridge: the state, and the class that its loss falls in."""
    words = _CLASS_WORDS.get(gpu_class, gpu_class.value)
    return f"{state(name)} · {words}" if words else state(name)


def clipped(text: str, length: int) -> str:
    """Gives a text of at most so many characters, ending in an ellipsis where it was cut."""
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def markdown(text: object) -> str:
    """Gives text that Markdown shows as it stands; a dollar sign would begin a formula."""
    return str(text).translate(_SPECIAL).replace("\n", " ")


def html(text: Any) -> str:
    """Gives text that HTML shows as it stands."""
    return escape(str(text), quote=True)


def plot(text: str) -> str:
    """Gives text that a chart shows as it stands: charts read a few HTML tags."""
    return escape(text, quote=False)
