"""Takes one delivery in: the body as it came, what it says, and what of it cannot be used, in one transaction.

Nothing is derived here. What an alert means is found out from the signals themselves, by the worker, who is told when
this is committed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Engine

from warehouse.alerts.inbox import take_in
from warehouse.alerts.payload import EXCERPT_BYTES, Malformed, Payload, Refusal, read_payload
from warehouse.errors import BadInput
from warehouse.model.alert import Alert, Sighting, Status
from warehouse.model.time import MS_PER_MINUTE
from warehouse.store import inbox
from warehouse.store.inbox import DeadLetter, Delivery

DEFAULT_SOURCE = "alertmanager"

# What tells replicas of one Prometheus apart, and not alerts; and severity, which may change while an alert lasts.
DEFAULT_IGNORED = ("__replica__", "prometheus", "prometheus_replica", "replica", "severity")

# A clock that is further ahead than this is wrong.
SKEW_MS = 5 * MS_PER_MINUTE

_SOURCE = re.compile(r"[a-z0-9_-]{1,40}")


@dataclass(frozen=True, slots=True)
class Envelope:
    """A body and what is known of its coming; `sent_ms` is the sender's own clock, None where it did not say."""

    source: str
    body: bytes
    received_ms: int
    sent_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """What became of a delivery. `delivery_id` is None of a body that could not be read at all."""

    delivery_id: int | None
    repeat: bool
    alerts: int
    events: int
    episodes: int
    refused: tuple[Refusal, ...]
    malformed: str | None = None

    @property
    def usable(self) -> bool:
        """Tells whether something of the body is kept as said, or nothing was wrong with it."""
        return self.malformed is None and (self.alerts > len(self.refused) or not self.refused)


def check_source(name: str) -> str:
    """Gives the name of a source as it is.

    Raises:
        BadInput: when it is none.
    """
    if not _SOURCE.fullmatch(name):
        raise BadInput("a source has 1 to 40 of the letters a-z, digits, _ and -")
    return name


def receive(engine: Engine, envelope: Envelope, ignored: Collection[str]) -> Received:
    """Stores a delivery and commits; what cannot be used of it is stored as dead letters.

    Raises:
        DBAPIError: when the database does not take it; nothing is stored then.
    """
    try:
        payload = read_payload(envelope.body, ignored)
    except Malformed as exc:
        bury(engine, envelope, str(exc), len(envelope.body))
        return Received(None, False, 0, 0, 0, (), str(exc))
    source, now_ms = envelope.source, envelope.received_ms
    with engine.begin() as connection:
        inbox.lock(connection, source)
        delivery_id, repeat = inbox.add_delivery(connection, _delivery(envelope, payload))
        taken = take_in(connection, source, _sightings(envelope, payload), delivery_id, now_ms)
        letters = [letter(refusal) for refusal in payload.refused]
        inbox.add_dead_letters(connection, source, now_ms, letters, delivery_id, now_ms - inbox.REPEAT_MS)
        if taken.episodes or payload.truncated != 0:
            inbox.notify(connection, source)
    return Received(delivery_id, repeat, payload.count, taken.events, taken.episodes, payload.refused)


def bury(engine: Engine, envelope: Envelope, reason: str, size_bytes: int) -> None:
    """Stores a body that cannot be used as a whole, by its first bytes; once where the same comes again and again."""
    excerpt = envelope.body[:EXCERPT_BYTES]
    dead = DeadLetter(None, reason, size_bytes, hashlib.sha256(envelope.body).digest(), excerpt)
    with engine.begin() as connection:
        since_ms = envelope.received_ms - inbox.REPEAT_MS
        inbox.add_dead_letters(connection, envelope.source, envelope.received_ms, [dead], None, since_ms)


def letter(refusal: Refusal) -> DeadLetter:
    """Gives what is stored of an alert that cannot be used."""
    digest = hashlib.sha256(refusal.excerpt).digest()
    return DeadLetter(refusal.index, refusal.reason, refusal.size_bytes, digest, refusal.excerpt)


def is_skewed(alert: Alert, received_ms: int) -> bool:
    """Tells whether an alert lies in the future of its own receipt."""
    return max(alert.starts_ms, alert.ends_ms or 0) > received_ms + SKEW_MS


def _delivery(envelope: Envelope, payload: Payload) -> Delivery:
    return Delivery(
        source=envelope.source,
        received_ms=envelope.received_ms,
        sent_ms=envelope.sent_ms,
        sha256=hashlib.sha256(envelope.body).digest(),
        body=envelope.body,
        alerts=payload.count,
        truncated=payload.truncated,
    )


def _sightings(envelope: Envelope, payload: Payload) -> list[Sighting]:
    received_ms, sent_ms = envelope.received_ms, envelope.sent_ms
    off = sent_ms is not None and abs(sent_ms - received_ms) > SKEW_MS
    return [
        Sighting(
            alert=alert,
            proven_ms=received_ms if alert.status is Status.FIRING else None,
            skewed=off or is_skewed(alert, received_ms),
            truncated=payload.truncated != 0,
        )
        for alert in payload.alerts
    ]
