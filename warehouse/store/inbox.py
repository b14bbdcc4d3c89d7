"""What was delivered, as it came: bodies, repeats of them, and what could not be used. Rows are only added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, text

from warehouse.model.time import MS_PER_MINUTE
from warehouse.store.rows import instant, milliseconds

# The channel on which the worker is told that there is something to look at.
CHANNEL = "gpu_minutes_alerts"

# The same body within this time is a repeat: Alertmanager sends one again until `group_interval`, five minutes by
# default, and a proxy may double that.
REPEAT_MS = 10 * MS_PER_MINUTE

# Writers wait for each other by source. Alertmanager gives up after a while and tries again, so waiting for longer is
# of no use to it; a statement that takes longer than this is a fault of the database.
_LOCK = """
select set_config('lock_timeout', '3s', true), set_config('statement_timeout', '30s', true),
  pg_advisory_xact_lock(hashtextextended('alerts ' || :source, 0))
"""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A body that can be read. `sent_ms` is the sender's own clock, None where it did not say."""

    source: str
    received_ms: int
    sent_ms: int | None
    sha256: bytes
    body: bytes
    alerts: int
    truncated: int | None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """What cannot be used, and why; `alert_index` None means the body as a whole."""

    alert_index: int | None
    reason: str
    size_bytes: int
    sha256: bytes
    excerpt: bytes


def lock(connection: Connection, source: str) -> None:
    """Waits until no other writer of this source is under way; held until the transaction ends."""
    connection.execute(text(_LOCK), {"source": source})


def add_delivery(connection: Connection, delivery: Delivery) -> tuple[int, bool]:
    """Stores a body, or notes that it came again; gives its id, and whether it is a repeat."""
    known = connection.execute(
        text(
            "select id from alert_delivery where source = :source and sha256 = :sha256 and received_at > :since "
            "order by received_at desc limit 1"
        ),
        {
            "source": delivery.source,
            "sha256": delivery.sha256,
            "since": instant(max(0, delivery.received_ms - REPEAT_MS)),
        },
    ).scalar_one_or_none()
    if known is not None:
        connection.execute(
            text("insert into alert_repeat values (:id, :at)"), {"id": known, "at": instant(delivery.received_ms)}
        )
        return int(known), True
    added = connection.execute(
        text(
            "insert into alert_delivery (source, received_at, sent_at, sha256, body, alerts, truncated_alerts) "
            "values (:source, :received, :sent, :sha256, :body, :alerts, :truncated) returning id"
        ),
        {
            "source": delivery.source,
            "received": instant(delivery.received_ms),
            "sent": instant(delivery.sent_ms),
            "sha256": delivery.sha256,
            "body": delivery.body,
            "alerts": delivery.alerts,
            "truncated": delivery.truncated,
        },
    ).scalar_one()
    return int(added), False


def add_dead_letters(
    connection: Connection,
    source: str,
    received_ms: int,
    letters: Sequence[DeadLetter],
    delivery_id: int | None,
    since_ms: int,
) -> int:
    """Stores what cannot be used, unless the same of this source was stored after `since_ms`; gives how many."""
    added = 0
    for letter in letters:
        done = connection.execute(
            text(
                "insert into alert_dead_letter "
                "(source, received_at, delivery_id, alert_index, reason, size_bytes, sha256, excerpt) "
                "select :source, :received, :delivery, :index, :reason, :size, :sha256, :excerpt where not exists ("
                "select 1 from alert_dead_letter where source = :source and sha256 = :sha256 and received_at > :since "
                "and alert_index is not distinct from cast(:index as int) and delivery_id is not distinct from "
                "cast(:delivery as bigint))"
            ),
            {
                "source": source,
                "received": instant(received_ms),
                "delivery": delivery_id,
                "index": letter.alert_index,
                "reason": letter.reason,
                "size": letter.size_bytes,
                "sha256": letter.sha256,
                "excerpt": letter.excerpt,
                "since": instant(max(0, since_ms)),
            },
        )
        added += done.rowcount
    return added


def notify(connection: Connection, source: str) -> None:
    """Tells the worker, when this transaction commits, that a source has something new."""
    connection.execute(text("select pg_notify(:channel, :source)"), {"channel": CHANNEL, "source": source})


def last_truncated(connection: Connection, source: str) -> int | None:
    """Gives the millisecond of the last delivery of which the sender left alerts out, None for never."""
    return milliseconds(
        connection.execute(
            text(
                "select max(greatest(d.received_at, (select max(r.received_at) from alert_repeat r "
                "where r.delivery_id = d.id))) from alert_delivery d "
                "where d.source = :source and d.truncated_alerts is distinct from 0"
            ),
            {"source": source},
        ).scalar_one()
    )


def dead_letters(connection: Connection) -> dict[str, int]:
    """Gives how many things could not be used, by source."""
    rows = connection.execute(text("select source, count(*) as letters from alert_dead_letter group by source"))
    return {row.source: row.letters for row in rows}
