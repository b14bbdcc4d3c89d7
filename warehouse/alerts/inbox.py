"""Takes sightings of alerts in: what is new among them, and what the episodes that they touch come to now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from warehouse.alerts.episodes import backward_ends, read_episodes
from warehouse.model.alert import AlertEpisode, Reading, Sighting, Told
from warehouse.store import alerts
from warehouse.store.alerts import Key


@dataclass(frozen=True, slots=True)
class TakenIn:
    """How many events were new, and how many episodes are new or say something else now."""

    events: int
    episodes: int


def take_in(
    connection: Connection, source: str, sightings: Sequence[Sighting], delivery_id: int | None, received_ms: int
) -> TakenIn:
    """Stores sightings and derives the touched episodes again; the caller holds the lock of the source.

    Only the end of each alert's history is read: an episode is not changed by what lies behind the beginning of the one
    before it, so the work follows what is new and not how long an alert has been flapping.
    """
    if not sightings:
        return TakenIn(0, 0)
    events = alerts.add_events(connection, source, sightings, delivery_id, received_ms)
    told, stored = _near(connection, source, sightings)
    told = _proven(told, stored, sightings)
    by_alert: dict[str, list[Told]] = {}
    for (name, _), row in told.items():
        by_alert.setdefault(name, []).append(row)
    fresh: list[tuple[str, Reading]] = []
    changed: list[tuple[str, Reading, bool]] = []
    for name, rows in by_alert.items():
        for reading in read_episodes(rows):
            before = stored.get((name, reading.starts_ms))
            if before is None:
                fresh.append((name, reading))
            elif before.reading != reading:
                says_more = replace(before.reading, proven_ms=None) != replace(reading, proven_ms=None)
                changed.append((name, reading, says_more))
    alerts.add_episodes(connection, source, fresh)
    alerts.change_episodes(connection, source, changed)
    return TakenIn(events, len(fresh) + sum(says_more for _, _, says_more in changed))


def _near(
    connection: Connection, source: str, sightings: Sequence[Sighting]
) -> tuple[dict[Key, Told], dict[Key, AlertEpisode]]:
    """Gives all that can be changed by the sightings, or change what they come to."""
    first: dict[str, int] = {}
    for alert in (sighting.alert for sighting in sightings):
        moment = alert.starts_ms if alert.ends_ms is None else min(alert.starts_ms, alert.ends_ms)
        first[alert.fingerprint] = min(moment, first.get(alert.fingerprint, moment))
    told: dict[Key, Told] = {}
    cuts: dict[str, int | None] = {}
    ask: dict[str, int] = first
    while ask:
        found = alerts.heads_before(connection, source, ask)
        cuts |= found
        told |= alerts.told(connection, source, found)
        # An end that lies before its own beginning may belong to an episode before the cut.
        ask = {}
        for (name, _), row in told.items():
            cut = cuts[name]
            for ending in backward_ends(row):
                if cut is not None and ending.ends_ms <= cut:
                    ask[name] = min(ending.ends_ms, ask.get(name, ending.ends_ms))
    return told, alerts.stored(connection, source, cuts)


def _proven(told: dict[Key, Told], stored: dict[Key, AlertEpisode], sightings: Sequence[Sighting]) -> dict[Key, Told]:
    """Joins what the events say with when they were last said: as stored, and as seen now."""
    proven: dict[Key, int | None] = {key: episode.reading.proven_ms for key, episode in stored.items()}
    truncated: set[Key] = {key for key, episode in stored.items() if episode.reading.truncated}
    for sighting in sightings:
        key = (sighting.alert.fingerprint, sighting.alert.starts_ms)
        if sighting.truncated:
            truncated.add(key)
        if sighting.proven_ms is not None:
            proven[key] = max(sighting.proven_ms, proven.get(key) or 0)
    return {key: replace(row, proven_ms=proven.get(key), truncated=key in truncated) for key, row in told.items()}
