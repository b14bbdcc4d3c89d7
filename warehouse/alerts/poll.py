"""Asks Alertmanager itself which alerts it has: also those that it keeps from its receivers.

A silenced, muted or inhibited alert is never sent, nor is its end. Absence from the answer is not an end either.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpx
from sqlalchemy import Engine

from warehouse.alerts.fingerprint import fingerprint
from warehouse.alerts.inbox import take_in
from warehouse.alerts.payload import Refusal, read_optional, read_texts, read_time, refusal
from warehouse.alerts.receive import DEFAULT_IGNORED, DEFAULT_SOURCE, is_skewed, letter
from warehouse.errors import one_line
from warehouse.model.alert import Alert, Marks, Sighting, Status
from warehouse.store import alerts, inbox, progress

_TIMEOUT_SECONDS = 30.0
_EXCERPT = 120


class AlertmanagerError(Exception):
    """Alertmanager did not give a whole answer; the message is one line, fit to print, without a password."""


class AlertmanagerClient:
    """A synchronous client of one Alertmanager's API, version 2.

    Args:
        base_url: address without `/api/v2`; a path before it is kept.
        receiver: whose alerts are asked for, as a regular expression over the whole name; None: those of all receivers,
            also of alerts that have nothing to do with GPUs.
        timeout_s: seconds that one request may take before it counts as failed.
    """

    def __init__(self, base_url: str, receiver: str | None = None, timeout_s: float = _TIMEOUT_SECONDS) -> None:
        self._receiver = receiver
        self._base_url = base_url.rstrip("/")
        self._name = re.sub(r"//[^/@]*@", "//", self._base_url)
        self._timeout_s = timeout_s
        self._http = httpx.Client(timeout=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections; the client cannot be used afterwards."""
        self._http.close()

    def alerts(self) -> list[object]:
        """Gives all alerts that have not ended, whether anyone is told of them or not, each as it came.

        Raises:
            AlertmanagerError: for every failure and every answer that is no list.
        """
        asked = {"active": "true", "silenced": "true", "inhibited": "true", "unprocessed": "true"}
        if self._receiver is not None:
            asked["receiver"] = self._receiver
        try:
            answer = self._http.get(f"{self._base_url}/api/v2/alerts", params=asked)
        except httpx.TimeoutException as exc:
            raise AlertmanagerError(f"{self._name} gave no answer within {self._timeout_s:g} s") from exc
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            raise AlertmanagerError(f"{self._name} cannot be reached: {one_line(str(exc))}") from exc
        if answer.status_code != httpx.codes.OK:
            said = one_line(answer.text)[:_EXCERPT]
            raise AlertmanagerError(f"{self._name} answered HTTP {answer.status_code}: {said}")
        try:
            found = json.loads(answer.content)
        except (ValueError, RecursionError) as exc:
            raise AlertmanagerError(f"{self._name} answered without JSON: {one_line(answer.text)[:_EXCERPT]}") from exc
        if not isinstance(found, list):
            raise AlertmanagerError(f"{self._name} gave no list of alerts")
        return found


@dataclass(frozen=True, slots=True)
class Listed:
    """What a poll found: alerts listed, events and episodes that no delivery had brought, how many are kept back."""

    alerts: int
    events: int
    episodes: int
    silenced: int
    inhibited: int
    muted: int
    refused: tuple[Refusal, ...]


def poll(
    engine: Engine,
    client: AlertmanagerClient,
    now_ms: int,
    source: str = DEFAULT_SOURCE,
    ignored: Collection[str] = DEFAULT_IGNORED,
) -> Listed:
    """Asks once, marks the episodes that are kept back, and makes episodes of alerts that were never delivered.

    The proof of a listed alert is when Alertmanager last heard of it, so that an Alertmanager cut off from Prometheus
    proves nothing.

    Raises:
        AlertmanagerError: when it gives no whole answer; nothing is changed then.
    """
    sightings, marks, refused = _read(client.alerts(), now_ms, ignored)
    with engine.begin() as connection:
        inbox.lock(connection, source)
        taken = take_in(connection, source, sightings, None, now_ms)
        alerts.mark(connection, source, now_ms, marks)
        # Each poll would list it again, so the same is stored once for ever.
        inbox.add_dead_letters(connection, source, now_ms, [letter(found) for found in refused], None, since_ms=0)
        progress.advance(connection, _progress(source), now_ms)
        if taken.episodes:
            inbox.notify(connection, source)
    said = marks.values()
    return Listed(
        alerts=len(sightings) + len(refused),
        events=taken.events,
        episodes=taken.episodes,
        silenced=sum(mark.silenced for mark in said),
        inhibited=sum(mark.inhibited for mark in said),
        muted=sum(mark.muted for mark in said),
        refused=tuple(refused),
    )


def poll_wanted(engine: Engine, source: str = DEFAULT_SOURCE) -> bool:
    """Tells whether a delivery came without all of its alerts since Alertmanager was last asked: ask now."""
    with engine.connect() as connection:
        truncated_ms = inbox.last_truncated(connection, source)
        polled_ms = progress.read(connection, _progress(source))
    return truncated_ms is not None and (polled_ms is None or polled_ms < truncated_ms)


def _progress(source: str) -> str:
    return f"alertmanager {source}"


def _read(
    items: list[object], now_ms: int, ignored: Collection[str]
) -> tuple[list[Sighting], dict[alerts.Key, Marks], list[Refusal]]:
    sightings: list[Sighting] = []
    marks: dict[alerts.Key, Marks] = {}
    refused: list[Refusal] = []
    for index, item in enumerate(items):
        try:
            sighting, mark = _sighting(item, now_ms, ignored)
        except ValueError as exc:
            refused.append(refusal(index, item, str(exc)))
            continue
        sightings.append(sighting)
        key = (sighting.alert.fingerprint, sighting.alert.starts_ms)
        # Several replicas of one alert: it is kept back only where each of them is.
        before = marks.get(key, mark)
        marks[key] = Marks(
            mark.silenced and before.silenced, mark.inhibited and before.inhibited, mark.muted and before.muted
        )
    return sightings, marks, refused


def _sighting(item: object, now_ms: int, ignored: Collection[str]) -> tuple[Sighting, Marks]:
    if not isinstance(item, Mapping):
        raise ValueError("the alert is no object")
    labels = read_texts(item.get("labels"), "labels")
    if not labels:
        raise ValueError("the alert has no labels")
    alert = Alert(
        fingerprint=fingerprint(labels, ignored),
        status=Status.FIRING,
        starts_ms=read_time(item.get("startsAt"), "startsAt"),
        ends_ms=None,
        labels=labels,
        annotations=read_texts(item.get("annotations"), "annotations"),
        generator_url=read_optional(item, "generatorURL"),
        sender_fingerprint=read_optional(item, "fingerprint"),
    )
    heard_ms = read_time(item.get("updatedAt"), "updatedAt")
    return Sighting(alert, heard_ms, is_skewed(alert, now_ms), truncated=False), _marks(item.get("status"))


def _marks(status: Any) -> Marks:
    if not isinstance(status, Mapping):
        raise ValueError("the alert has no status")
    # `mutedBy` is said since 0.28; before, a muted alert is listed like any other.
    return Marks(*(bool(status.get(name)) for name in ("silencedBy", "inhibitedBy", "mutedBy")))
