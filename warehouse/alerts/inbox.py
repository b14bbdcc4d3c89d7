"""Takes sightings of alerts in: what is new among them, and what the episodes that they touch come to now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from warehouse.alerts.episodes import backward_ends, read_episodes
from warehouse.model.alert import Reading, Sighting, Told
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
    known = _near(connection, source, sightings)
    by_alert: dict[str, list[Told]] = {}
    for key, told in _proven({key: told for key, (told, _) in known.items()}, sightings).items():
        by_alert.setdefault(key[0], []).append(told)
    fresh: list[tuple[str, Reading]] = []
    changed: list[tuple[str, Reading, bool]] = []
    for name, rows in by_alert.items():
        for reading in read_episodes(rows):
            _, before = known[name, reading.starts_ms]
            if before is None:
                fresh.append((name, reading))
            elif before != reading:
                says_more = replace(before, proven_ms=None) != replace(reading, proven_ms=None)
                changed.append((name, reading, says_more))
    alerts.add_episodes(connection, source, fresh)
    alerts.change_episodes(connection, source, changed)
    return TakenIn(events, len(fresh) + sum(says_more for _, _, says_more in changed))


def _near(connection: Connection, source: str, sightings: Sequence[Sighting]) -> dict[Key, tuple[Told, Reading | None]]:
    """Gives all that can be changed by the sightings, or change what they come to."""
    ask: dict[str, int] = {}
    for alert in (sighting.alert for sighting in sightings):
        ask[alert.fingerprint] = min(alert.starts_ms, ask.get(alert.fingerprint, alert.starts_ms))
    known: dict[Key, tuple[Told, Reading | None]] = {}
    while ask:
        cuts = alerts.heads_before(connection, source, ask)
        found = alerts.known(connection, source, cuts)
        known |= found
        # An end that lies before its own beginning may belong to an episode before the cut.
        ask = {}
        for (name, _), (told, _) in found.items():
            cut = cuts[name]
            for ending in backward_ends(told):
                if cut is not None and ending.ends_ms <= cut:
                    ask[name] = min(ending.ends_ms, ask.get(name, ending.ends_ms))
    return known


def _proven(told: dict[Key, Told], sightings: Sequence[Sighting]) -> dict[Key, Told]:
    """Joins what is stored with when it was said now; a later proof replaces an earlier one."""
    proven = {key: row.proven_ms for key, row in told.items()}
    truncated = {key for key, row in told.items() if row.truncated}
    for sighting in sightings:
        key = (sighting.alert.fingerprint, sighting.alert.starts_ms)
        if sighting.truncated:
            truncated.add(key)
        if sighting.proven_ms is not None:
            proven[key] = max(sighting.proven_ms, proven[key] or 0)
    return {key: replace(row, proven_ms=proven[key], truncated=key in truncated) for key, row in told.items()}
