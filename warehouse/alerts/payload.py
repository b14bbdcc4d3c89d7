"""Reads the body of a webhook: Alertmanager's version 4, and Grafana's dialect of it.

Only what is needed is read; other fields and versions pass, since the body is kept as it came. One alert that cannot be
used is refused with its reason, and the others stand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from warehouse.alerts.fingerprint import fingerprint
from warehouse.errors import one_line
from warehouse.model.alert import Alert, Status
from warehouse.model.time import parse_instant

# How much of what is refused is kept beside the reason, in bytes; the column holds no more.
EXCERPT_BYTES = 65_536

# Longer ones than fit into 64 bits are none that we count with, and beyond 4,300 digits Python refuses to read them.
_MOST_DIGITS = 18
_MOST_REASON = 200
# Go's zero time: not set.
_UNSET = re.compile(r"0001-01-01T00:00:00(\.0+)?Z")
# Go writes nanoseconds, the ledger holds milliseconds.
_BELOW_MS = re.compile(r"(?a)(\.\d{3})\d+")


class Malformed(ValueError):
    """A body in which no alert can be found; the message is one line, fit to print."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An alert that cannot be used: its place in the body from 0, why, its size and its first bytes."""

    index: int
    reason: str
    size_bytes: int
    excerpt: bytes


@dataclass(frozen=True, slots=True)
class Payload:
    """The alerts of a body and those refused. `truncated`: how many were left out, None where that is unreadable."""

    alerts: tuple[Alert, ...]
    refused: tuple[Refusal, ...]
    truncated: int | None

    @property
    def count(self) -> int:
        """Gives how many alerts the body holds."""
        return len(self.alerts) + len(self.refused)


@dataclass(frozen=True, slots=True)
class _Huge:
    """A number of more digits than anything here counts with."""

    digits: str


def read_payload(body: bytes, ignored: Collection[str]) -> Payload:
    """Reads a body.

    Args:
        body: as it came.
        ignored: the names of labels that do not tell alerts apart.

    Raises:
        Malformed: when the body is no JSON object with a list of alerts.
    """
    document = _document(body)
    items = document.get("alerts")
    if not isinstance(items, list):
        raise Malformed("it has no list 'alerts'; send what Alertmanager's or Grafana's webhook sends")
    alerts, refused = [], []
    for index, item in enumerate(items):
        try:
            alerts.append(_alert(item, ignored))
        except ValueError as exc:
            refused.append(refusal(index, item, str(exc)))
    return Payload(tuple(alerts), tuple(refused), _count(document.get("truncatedAlerts", 0)))


def refusal(index: int, item: object, reason: str) -> Refusal:
    """Gives the refusal of an alert, with its first bytes as JSON."""
    try:
        text = json.dumps(item, default=lambda huge: huge.digits).encode("ascii")
    except RecursionError:
        text = b""
    return Refusal(index, one_line(reason)[:_MOST_REASON], len(text), text[:EXCERPT_BYTES])


def read_time(value: object, what: str) -> int:
    """Reads a time as Go writes it: what is finer than a millisecond is cut off.

    Raises:
        ValueError: with a reason fit to print.
    """
    if not isinstance(value, str):
        raise ValueError(f"{what} is no text")
    if _UNSET.fullmatch(value):
        raise ValueError(f"{what} is not set")
    try:
        return parse_instant(_BELOW_MS.sub(r"\1", value))
    except ValueError as exc:
        raise ValueError(f"{what}: {exc}") from exc


def read_texts(value: object, what: str) -> dict[str, str]:
    """Reads an object of texts that the database can hold; a missing one is empty.

    Raises:
        ValueError: with a reason fit to print.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{what} is no object")
    return {read_text(name, f"a name in {what}"): read_text(text, f"{what}.{name}") for name, text in value.items()}


def read_text(value: object, what: str) -> str:
    """Reads a text that the database can hold.

    Raises:
        ValueError: with a reason fit to print.
    """
    if not isinstance(value, str):
        raise ValueError(f"{what[:80]} is no text")
    if "\0" in value:
        raise ValueError(f"{what[:80]} holds a NUL")
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ValueError(f"{what[:80]} is not UTF-8")
    return value


def _document(body: bytes) -> dict[str, object]:
    try:
        # Bytes that are no UTF-8 become lone surrogates, so that they spoil the alert that holds them and no other.
        text = body.decode("utf-8-sig", errors="surrogateescape")
        document = json.loads(text, strict=False, parse_int=_number)
    except RecursionError as exc:
        raise Malformed("it is nested too deeply") from exc
    except ValueError as exc:
        raise Malformed(f"it is no JSON: {one_line(str(exc))[:_MOST_REASON]}") from exc
    if not isinstance(document, dict):
        raise Malformed("it is no JSON object; send what Alertmanager's or Grafana's webhook sends")
    return document


def _number(digits: str) -> int | _Huge:
    return int(digits) if len(digits) <= _MOST_DIGITS else _Huge(digits)


def _count(value: object) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_count else None  # type: ignore[return-value]  # mypy does not follow the name


def _alert(item: object, ignored: Collection[str]) -> Alert:
    if not isinstance(item, Mapping):
        raise ValueError("the alert is no object")
    status = _status(item.get("status"))
    labels = read_texts(item.get("labels"), "labels")
    if not labels:
        raise ValueError("the alert has no labels")
    starts_ms = read_time(item.get("startsAt"), "startsAt")
    ends_ms = read_time(item.get("endsAt"), "endsAt") if status is Status.RESOLVED else None
    return Alert(
        fingerprint=fingerprint(labels, ignored),
        status=status,
        starts_ms=starts_ms,
        ends_ms=ends_ms,
        labels=labels,
        annotations=read_texts(item.get("annotations"), "annotations"),
        generator_url=read_optional(item, "generatorURL"),
        sender_fingerprint=read_optional(item, "fingerprint"),
    )


def read_optional(item: Mapping[str, object], name: str) -> str | None:
    """Reads a text that may be missing or empty, which is None."""
    value = item.get(name)
    return None if value is None else read_text(value, name) or None


def _status(value: object) -> Status:
    if not isinstance(value, str) or value not in set(Status):
        raise ValueError("status is neither 'firing' nor 'resolved'")
    return Status(value)
