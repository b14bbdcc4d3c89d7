"""Alerts as their senders tell them, and the episodes that their tellings make; times in UTC milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

# An alert that always fires, so that its silence means that the way from Prometheus to here is broken.
HEARTBEAT = "GpuMinutesHeartbeat"


class Status(StrEnum):
    """What a sender says of one alert; the status of a group says nothing of its members."""

    FIRING = "firing"
    RESOLVED = "resolved"


class EpisodeState(StrEnum):
    """What the tellings of one beginning come to.

    A `part` belongs to the episode of another beginning. A `quarantined` one ends before it begins and closes nothing.
    """

    OPEN = "open"
    CLOSED = "closed"
    PART = "part"
    QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert of a delivery. `fingerprint` is ours; `ends_ms` is None of a firing one, whose end is a lease."""

    fingerprint: str
    status: Status
    starts_ms: int
    ends_ms: int | None
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    generator_url: str | None
    sender_fingerprint: str | None

    def __post_init__(self) -> None:
        if (self.status is Status.RESOLVED) != (self.ends_ms is not None):
            raise ValueError("a resolved alert has an end, and no other")


@dataclass(frozen=True, slots=True)
class Sighting:
    """An alert, and when it was last known to say so.

    `proven_ms` is the receipt of a firing alert, or the time at which Alertmanager last heard of it; None of a resolved
    one. `skewed`: a clock is wrong. `truncated`: the sender left others of the same delivery out.
    """

    alert: Alert
    proven_ms: int | None
    skewed: bool
    truncated: bool


@dataclass(frozen=True, slots=True)
class Ending:
    """One end that was said, and the first time that it was."""

    ends_ms: int
    received_ms: int


@dataclass(frozen=True, slots=True)
class Told:
    """All that was said of one alert with one beginning. `proven_ms` None: it was never said to fire."""

    starts_ms: int
    proven_ms: int | None
    endings: tuple[Ending, ...]
    skewed: bool = False
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """What one beginning comes to, among the others of its alert.

    Of a superseded episode `ends_ms` is the latest that it can be: the next beginning. `head_ms` is the beginning of
    the episode that a part belongs to, None of all others.
    """

    starts_ms: int
    ends_ms: int | None
    state: EpisodeState
    head_ms: int | None
    proven_ms: int | None
    skewed: bool
    superseded: bool
    truncated: bool
    stale_sibling: bool


@dataclass(frozen=True, slots=True)
class Marks:
    """What Alertmanager said of an alert when it was asked; it changes who is told, never what happened."""

    silenced: bool
    inhibited: bool
    muted: bool


@dataclass(frozen=True, slots=True)
class AlertEpisode:
    """A stored episode. `version` grows with every change of what it says; `processed` is the one last dealt with.

    `marks` and `listed_ms` are None of one that Alertmanager never listed.
    """

    id: int
    source: str
    fingerprint: str
    reading: Reading
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    generator_url: str | None
    sender_fingerprint: str | None
    marks: Marks | None
    listed_ms: int | None
    version: int
    processed: int
