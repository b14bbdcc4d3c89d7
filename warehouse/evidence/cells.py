"""Parsers of single cells; each raises ValueError with a reason fit to print."""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal

from warehouse.model.state import LOSSLESS, PARTIAL, PPM, State

_NAME = re.compile(r"[^\s+/:,\x00-\x1f]{1,200}")
_NUMBER = re.compile(r"[0-9]{1,30}(\.[0-9]{1,30})?")
_PRICE_DIGITS = 8
_COUNT_TOP = 1_000_000

# Ids and scopes stand in index rows of at most 2,704 bytes, an id and its source in one.
MAX_TEXT_BYTES = 1_000


def name(text: str) -> str:
    """Reads the name of a place: no blank, `+`, `/`, `:` or comma, since scopes are written with them."""
    if not _NAME.fullmatch(text):
        raise ValueError(f"'{text[:80]}' cannot be a name: no blanks, '+', '/', ':' or ',' and 200 letters at most")
    return short_text(text)


def short_text(text: str) -> str:
    """Reads free text, 1,000 bytes at most; line breaks become blanks, what could steer a screen is refused."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_TEXT_BYTES:
        raise ValueError(f"has {size} bytes; {MAX_TEXT_BYTES} at most")
    plain = " ".join(text.split())
    for letter in plain:
        # Control, format (among them those that turn the direction of writing), surrogate, private and unassigned.
        if unicodedata.category(letter)[0] == "C":
            raise ValueError(f"holds the control character U+{ord(letter):04X}")
    return plain


def positive_count(text: str) -> int:
    """Reads a whole number from 1 to a million."""
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text[:9]) <= _COUNT_TOP or len(text) > 7:
        raise ValueError(f"'{text[:40]}' is not a whole number from 1 to {_COUNT_TOP}")
    return int(text)


def natural(text: str) -> int:
    """Reads a whole number from 0 to a million."""
    if text == "0":
        return 0
    try:
        return positive_count(text)
    except ValueError:
        raise ValueError(f"'{text[:40]}' is not a whole number from 0 to {_COUNT_TOP}") from None


def state(text: str) -> State:
    """Reads one of the 17 states."""
    try:
        return State(text)
    except ValueError:
        raise ValueError(f"'{text[:40]}' is no state; known are {', '.join(State)}") from None


def lost_ppm(text: str) -> int:
    """Reads a loss from 0 to 1, at most six decimals, as parts per million."""
    value = Decimal(text) if _NUMBER.fullmatch(text) else Decimal(-1)
    if not 0 <= value <= 1:
        raise ValueError(f"'{text[:40]}' is not a number from 0 to 1")
    if value * PPM % 1:
        raise ValueError(f"'{text[:40]}' is finer than a millionth; six decimals at most")
    return int(value * PPM)


def loss_fits(said: State, ppm: int) -> str | None:
    """Gives the reason why this state cannot have this loss, None where it can."""
    if said in PARTIAL:
        return None if ppm else f"0 for {said}: a state without loss is productive"
    fixed = 0 if said in LOSSLESS else PPM
    return None if ppm == fixed else f"{said} is all or nothing: its loss is {fixed // PPM}"


def price(text: str) -> Decimal:
    """Reads a price per GPU-hour: not negative, at most eight decimals."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"'{text[:40]}' is not a price such as 2.45")
    value = Decimal(text)
    if value >= 10**9:
        raise ValueError(f"'{text[:40]}' is not a price from 0 to 999999999")
    if value != round(value, _PRICE_DIGITS):
        raise ValueError(f"'{text[:40]}' has more than {_PRICE_DIGITS} decimals")
    return value
