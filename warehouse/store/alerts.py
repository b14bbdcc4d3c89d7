"""Events and episodes of alerts: what was said once each, and what it comes to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, text

from warehouse.model.alert import (
    HEARTBEAT,
    AlertEpisode,
    Ending,
    EpisodeState,
    Marks,
    Reading,
    Sighting,
    Told,
)
from warehouse.store.rows import instant, milliseconds

Key = tuple[str, int]  # fingerprint, beginning in milliseconds
Cuts = Mapping[str, int | None]  # by fingerprint: from which beginning on, None for all of them

_ADD_EVENTS = """
insert into alert_event (source, fingerprint, starts_at, status, ends_at, delivery_id, received_at, skewed, labels,
  annotations, generator_url, sender_fingerprint)
select :source, f, s, t, e, :delivery, :received, k, cast(l as jsonb), cast(a as jsonb), g, n
from unnest(cast(:f as text[]), cast(:s as timestamptz[]), cast(:t as text[]), cast(:e as timestamptz[]),
  cast(:k as boolean[]), cast(:l as text[]), cast(:a as text[]), cast(:g as text[]), cast(:n as text[]))
  as said (f, s, t, e, k, l, a, g, n)
on conflict (source, fingerprint, starts_at, status, coalesce(ms_of(ends_at), -1)) do nothing
"""

_HEADS = """
select asked.f as fingerprint, (select max(p.starts_at) from alert_episode p where p.source = :source
    and p.fingerprint = asked.f and p.starts_at < asked.s and p.state in ('open', 'closed')) as at
from unnest(cast(:f as text[]), cast(:s as timestamptz[])) as asked (f, s)
"""

_KNOWN = """
select e.fingerprint, e.starts_at as said_at, e.ends_at as said_end, e.received_at, e.skewed as said_skewed, p.id,
  p.starts_at, p.ends_at, p.state, p.head_at, p.proven_at, p.skewed, p.superseded, p.truncated, p.stale_sibling
from unnest(cast(:f as text[]), cast(:s as timestamptz[])) as asked (f, s)
join alert_event e on e.source = :source and e.fingerprint = asked.f and e.starts_at >= coalesce(asked.s, 'epoch')
left join alert_episode p on p.source = :source and p.fingerprint = e.fingerprint and p.starts_at = e.starts_at
"""

_COLUMNS = """p.id, p.source, p.fingerprint, p.starts_at, p.ends_at, p.state, p.head_at, p.proven_at, p.skewed,
  p.superseded, p.truncated, p.stale_sibling, p.silenced, p.inhibited, p.muted, p.listed_at, p.labels, p.annotations,
  p.generator_url, p.sender_fingerprint, p.version, p.processed"""

_ADD_EPISODES = """
insert into alert_episode (source, fingerprint, starts_at, ends_at, state, head_at, proven_at, skewed, superseded,
  truncated, stale_sibling, version, labels, annotations, generator_url, sender_fingerprint)
select :source, f, s, e, t, h, p, k, u, c, b, 1, l.labels, l.annotations, l.generator_url, l.sender_fingerprint
from unnest(cast(:f as text[]), cast(:s as timestamptz[]), cast(:e as timestamptz[]), cast(:t as text[]),
  cast(:h as timestamptz[]), cast(:p as timestamptz[]), cast(:k as boolean[]), cast(:u as boolean[]),
  cast(:c as boolean[]), cast(:b as boolean[])) as said (f, s, e, t, h, p, k, u, c, b)
cross join lateral (select * from alert_event v where v.source = :source and v.fingerprint = f and v.starts_at = s
  order by v.id limit 1) as l
"""

_CHANGE_EPISODES = """
update alert_episode p set ends_at = e, state = t, head_at = h, proven_at = said.p, skewed = k, superseded = u,
  truncated = c, stale_sibling = b, version = p.version + said.v
from unnest(cast(:f as text[]), cast(:s as timestamptz[]), cast(:e as timestamptz[]), cast(:t as text[]),
  cast(:h as timestamptz[]), cast(:p as timestamptz[]), cast(:k as boolean[]), cast(:u as boolean[]),
  cast(:c as boolean[]), cast(:b as boolean[]), cast(:v as int[])) as said (f, s, e, t, h, p, k, u, c, b, v)
where p.source = :source and p.fingerprint = f and p.starts_at = s
"""


def add_events(
    connection: Connection, source: str, sightings: Sequence[Sighting], delivery_id: int | None, received_ms: int
) -> int:
    """Stores what was not said before; gives how many. Of what is said again the first telling's labels stay."""
    if not sightings:
        return 0
    alerts = [sighting.alert for sighting in sightings]
    return connection.execute(
        text(_ADD_EVENTS),
        {
            "source": source,
            "delivery": delivery_id,
            "received": instant(received_ms),
            "f": [alert.fingerprint for alert in alerts],
            "s": [instant(alert.starts_ms) for alert in alerts],
            "t": [alert.status.value for alert in alerts],
            "e": [instant(alert.ends_ms) for alert in alerts],
            "k": [sighting.skewed for sighting in sightings],
            "l": [json.dumps(dict(alert.labels)) for alert in alerts],
            "a": [json.dumps(dict(alert.annotations)) for alert in alerts],
            "g": [alert.generator_url for alert in alerts],
            "n": [alert.sender_fingerprint for alert in alerts],
        },
    ).rowcount


def heads_before(connection: Connection, source: str, moments: Cuts) -> dict[str, int | None]:
    """Gives, by fingerprint, the last beginning of an episode before a moment; None where there is none."""
    rows = connection.execute(text(_HEADS), {"source": source, **_asked(moments)})
    return {row.fingerprint: milliseconds(row.at) for row in rows}


def known(connection: Connection, source: str, cuts: Cuts) -> dict[Key, tuple[Told, Reading | None]]:
    """Gives what is stored from each cut on: what was said, and what it came to; None where that is not stored yet."""
    endings: dict[Key, list[Ending]] = {}
    skewed: dict[Key, bool] = {}
    readings: dict[Key, Reading | None] = {}
    for row in connection.execute(text(_KNOWN), {"source": source, **_asked(cuts)}):
        key = (row.fingerprint, _ms(row.said_at))
        said = endings.setdefault(key, [])
        skewed[key] = skewed.get(key, False) or row.said_skewed
        if row.said_end is not None:
            said.append(Ending(_ms(row.said_end), _ms(row.received_at)))
        if key not in readings:
            readings[key] = None if row.id is None else _reading(row)
    found = {}
    for key, reading in readings.items():
        proven_ms, truncated = (None, False) if reading is None else (reading.proven_ms, reading.truncated)
        found[key] = (Told(key[1], proven_ms, tuple(endings[key]), skewed[key], truncated), reading)
    return found


def add_episodes(connection: Connection, source: str, readings: Sequence[tuple[str, Reading]]) -> None:
    """Stores episodes that are new; labels and annotations are those of their first event."""
    if readings:
        connection.execute(text(_ADD_EPISODES), {"source": source, **_columns(readings)})


def change_episodes(connection: Connection, source: str, changes: Sequence[tuple[str, Reading, bool]]) -> None:
    """Writes episodes again; the flag: what it says changed, which is a new version, and not the proof alone."""
    if changes:
        versions = {"v": [int(says_more) for _, _, says_more in changes]}
        columns = _columns([(name, reading) for name, reading, _ in changes])
        connection.execute(text(_CHANGE_EPISODES), {"source": source, **columns, **versions})


def mark(connection: Connection, source: str, listed_ms: int, marks: Mapping[Key, Marks]) -> None:
    """Notes what Alertmanager said when it was asked; no new version, since it changes nothing that happened."""
    if not marks:
        return
    connection.execute(
        text(
            "update alert_episode p set silenced = a, inhibited = b, muted = c, listed_at = :listed "
            "from unnest(cast(:f as text[]), cast(:s as timestamptz[]), cast(:a as boolean[]), cast(:b as boolean[]), "
            "cast(:c as boolean[])) as said (f, s, a, b, c) "
            "where p.source = :source and p.fingerprint = f and p.starts_at = s "
            "and (p.listed_at is null or p.listed_at <= :listed)"
        ),
        {
            "source": source,
            "listed": instant(listed_ms),
            "f": [name for name, _ in marks],
            "s": [instant(start_ms) for _, start_ms in marks],
            "a": [said.silenced for said in marks.values()],
            "b": [said.inhibited for said in marks.values()],
            "c": [said.muted for said in marks.values()],
        },
    )


def open_or_changed_episodes(connection: Connection, limit: int | None = None) -> list[AlertEpisode]:
    """Gives the episodes that are open, and those that say something else than when they were last dealt with.

    Parts and quarantined ones come too when they changed: what was made of them before has to go. The heartbeat never
    comes; see `heartbeats`.

    Args:
        limit: at most so many, the changed ones before the open ones, earlier before later.
    """
    rows = connection.execute(
        text(
            f"select {_COLUMNS} from alert_episode p where (processed < version or state = 'open') "
            "and labels ->> 'alertname' is distinct from :heartbeat "
            "order by processed < version desc, p.starts_at, p.source, p.fingerprint limit :limit"
        ),
        {"heartbeat": HEARTBEAT, "limit": limit},
    )
    return [_episode(row) for row in rows]


def set_processed(connection: Connection, done: Iterable[tuple[int, int]]) -> None:
    """Notes (id, version) pairs as dealt with; one that changed in between stays waiting."""
    pairs = list(done)
    if pairs:
        connection.execute(
            text(
                "update alert_episode p set processed = d.version from unnest(cast(:ids as bigint[]), "
                "cast(:versions as bigint[])) as d (id, version) where p.id = d.id and p.processed < d.version"
            ),
            {"ids": [pair[0] for pair in pairs], "versions": [pair[1] for pair in pairs]},
        )


def heartbeats(connection: Connection) -> dict[str, int]:
    """Gives, by source, the last millisecond at which the heartbeat was said to fire; without one it is absent."""
    rows = connection.execute(
        text(
            "select source, max(proven_at) as at from alert_episode where labels ->> 'alertname' = :heartbeat "
            "and proven_at is not null group by source"
        ),
        {"heartbeat": HEARTBEAT},
    )
    return {row.source: _ms(row.at) for row in rows}


def waiting(connection: Connection) -> dict[tuple[str, str], int]:
    """Gives how many episodes are `open` and how many are `changed` since they were dealt with, by source."""
    rows = connection.execute(
        text(
            "select source, count(*) filter (where state = 'open') as open, "
            "count(*) filter (where processed < version) as changed from alert_episode "
            "where processed < version or state = 'open' group by source"
        )
    )
    return {(row.source, word): getattr(row, word) for row in rows for word in ("open", "changed")}


def _asked(cuts: Cuts) -> dict[str, Any]:
    return {"f": list(cuts), "s": [instant(cut) for cut in cuts.values()]}


def _columns(readings: Sequence[tuple[str, Reading]]) -> dict[str, list[object]]:
    said = [reading for _, reading in readings]
    return {
        "f": [name for name, _ in readings],
        "s": [instant(reading.starts_ms) for reading in said],
        "e": [instant(reading.ends_ms) for reading in said],
        "t": [reading.state.value for reading in said],
        "h": [instant(reading.head_ms) for reading in said],
        "p": [instant(reading.proven_ms) for reading in said],
        "k": [reading.skewed for reading in said],
        "u": [reading.superseded for reading in said],
        "c": [reading.truncated for reading in said],
        "b": [reading.stale_sibling for reading in said],
    }


def _ms(moment: Any) -> int:
    found = milliseconds(moment)
    assert found is not None
    return found


def _reading(row: Row[Any]) -> Reading:
    return Reading(
        starts_ms=_ms(row.starts_at),
        ends_ms=milliseconds(row.ends_at),
        state=EpisodeState(row.state),
        head_ms=milliseconds(row.head_at),
        proven_ms=milliseconds(row.proven_at),
        skewed=row.skewed,
        superseded=row.superseded,
        truncated=row.truncated,
        stale_sibling=row.stale_sibling,
    )


def _episode(row: Row[Any]) -> AlertEpisode:
    marks = None if row.listed_at is None else Marks(row.silenced, row.inhibited, row.muted)
    return AlertEpisode(
        row.id, row.source, row.fingerprint, _reading(row), row.labels, row.annotations, row.generator_url,
        row.sender_fingerprint, marks, milliseconds(row.listed_at), row.version, row.processed,
    )  # fmt: skip
