"""Deliveries shuffled, repeated and lost, a thousand times, through the service's own code into a real database.

Two laws. First: what is stored is what all tellings say together, each with its own receipts, in whatever order and in
whatever pieces they came. Second, of an alert whose episodes do not overlap, as one sender tells them: as long as of
each episode one firing and its last end arrive, or one firing where it has not ended, the episodes are the same,
whatever else was lost, came twice or came in the wrong order.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.alerts.deliveries import MINUTE, START, Api, alert, at, payload
from warehouse.alerts.episodes import read_episodes
from warehouse.alerts.receive import DEFAULT_IGNORED, Envelope, receive
from warehouse.model.alert import Ending, Reading, Told

TRIALS = 1_000
LOST = 0.3
SEED = 7
SOURCE = "shuffled"

Heads = list[tuple[int, int | None, str]]


@dataclass(frozen=True)
class Telling:
    """What one delivery says of one alert; minutes. `essential`: which of the things that must arrive it says."""

    start: int
    end: int | None
    essential: tuple[str, int]


def history(rng: random.Random, grafana: bool) -> tuple[list[Telling], Heads]:
    """Gives the tellings of a few episodes in order, and those episodes."""
    tellings: list[Telling] = []
    heads: Heads = []
    time = 0
    count = rng.randint(1, 3)
    for number in range(count):
        start = time + rng.randint(1, 20)
        tellings += [Telling(start, None, ("firing", start))] * rng.randint(1, 3)
        if number == count - 1 and rng.random() < 0.3:
            heads.append((start, None, "open"))
            break
        end = start + rng.randint(1, 20)
        if grafana:  # its resolved alerts begin when they end
            tellings += [Telling(end, end, ("end", start))] * rng.randint(1, 3)
        else:
            # One that ended, and was found to have gone on: an earlier end is told first.
            tellings += [Telling(start, rng.randint(start + 1, end), ("maybe", start))] * rng.randint(0, 1)
            tellings += [Telling(start, end, ("end", start))] * rng.randint(1, 3)
        heads.append((start, end, "closed"))
        time = end
    return tellings, heads


def siblings(rng: random.Random) -> list[Telling]:
    """Tellings of several senders that contradict each other: only the first law is theirs."""
    found = []
    for _ in range(rng.randint(3, 12)):
        start = rng.randint(1, 15)
        found.append(Telling(start, rng.choice([None, rng.randint(1, 30)]), ("none", 0)))
    return found


def disturbed(rng: random.Random, tellings: Sequence[Telling]) -> list[Telling]:
    kept = [telling for telling in tellings if rng.random() > LOST]
    kept += [telling for telling in kept if rng.random() < LOST]
    rng.shuffle(kept)
    return kept


def enough(kept: Sequence[Telling], heads: Heads) -> bool:
    """Tells whether what the second law asks for arrived."""
    said = {telling.essential for telling in kept}
    wanted = {("firing", start) for start, _, _ in heads}
    wanted |= {("end", start) for start, end, _ in heads if end is not None}
    return wanted <= said


def deliver(api: Api, streams: dict[str, list[Telling]], rng: random.Random) -> dict[str, list[tuple[Telling, int]]]:
    """Sends the streams side by side, in deliveries of many alerts; gives what was said of each, with its receipt."""
    log: dict[str, list[tuple[Telling, int]]] = defaultdict(list)
    waiting = {node: list(stream) for node, stream in streams.items()}
    now = START
    while waiting:
        now += rng.randint(1, 5) * MINUTE
        body: list[dict[str, Any]] = []
        for node in sorted(waiting):
            if rng.random() < 0.4:
                continue
            for _ in range(rng.randint(1, 2)):
                if waiting[node]:
                    telling = waiting[node].pop(0)
                    body.append(alert(start=telling.start, end=telling.end, node=node))
                    log[node].append((telling, now))
        waiting = {node: stream for node, stream in waiting.items() if stream}
        rng.shuffle(body)
        received = receive(api.engine, Envelope(SOURCE, payload(*body), now), DEFAULT_IGNORED)
        assert (received.usable, received.refused) == (True, ())
    return log


def together(log: Sequence[tuple[Telling, int]]) -> list[Told]:
    """What a log says of each beginning: the last proof, and each end with its first receipt."""
    proven: dict[int, int] = {}
    ends: dict[int, dict[int, int]] = defaultdict(dict)
    ahead: Counter[int] = Counter()
    first: dict[tuple[int, int | None], int] = {}
    for telling, received in log:
        start = at(telling.start)
        first.setdefault((start, telling.end), received)
        if telling.end is None:
            proven[start] = max(received, proven.get(start, 0))
        else:
            ends[start].setdefault(at(telling.end), received)
    for (start, end), received in first.items():
        ahead[start] += max(start, 0 if end is None else at(end)) > received + 5 * MINUTE
    starts = sorted({at(telling.start) for telling, _ in log})
    return [
        Told(start, proven.get(start), tuple(Ending(*pair) for pair in ends[start].items()), ahead[start] > 0)
        for start in starts
    ]


def stored(api: Api) -> dict[str, list[Reading]]:
    found: dict[str, list[Reading]] = defaultdict(list)
    for row in api.sql(
        "select labels ->> 'node' as node, ms_of(starts_at) as s, ms_of(ends_at) as e, state, ms_of(head_at) as h, "
        "ms_of(proven_at) as p, skewed, superseded, truncated, stale_sibling from alert_episode "
        "where source = :source order by starts_at",
        source=SOURCE,
    ):
        found[row.node].append(
            Reading(row.s, row.e, row.state, row.h, row.p, row.skewed, row.superseded, row.truncated, row.stale_sibling)
        )
    return found


def heads_of(readings: Sequence[Reading]) -> Heads:
    return [
        ((r.starts_ms - START) // MINUTE, None if r.ends_ms is None else (r.ends_ms - START) // MINUTE, str(r.state))
        for r in readings
        if r.state in ("open", "closed")
    ]


@pytest.mark.slow
def test_a_thousand_shuffles(api: Api) -> None:
    rng = random.Random(SEED)
    expected: dict[str, Heads] = {}
    streams: dict[str, list[Telling]] = {}
    for number in range(TRIALS):
        node = f"n{number:04}"
        tellings, heads = history(rng, grafana=number % 4 == 0)
        streams[node] = disturbed(rng, tellings)
        if enough(streams[node], heads):
            expected[node] = heads
    for number in range(TRIALS // 2):
        streams[f"s{number:04}"] = disturbed(rng, siblings(rng))
    streams = {node: stream for node, stream in streams.items() if stream}
    log = deliver(api, streams, rng)
    found = stored(api)
    assert found.keys() == streams.keys()
    for node in streams:
        assert found[node] == read_episodes(together(log[node])), (node, log[node])
    for node, heads in expected.items():
        assert heads_of(found[node]) == heads, (node, log[node])
    assert len(expected) > TRIALS // 4  # enough of them had what the second law asks for
    states = Counter(str(reading.state) for readings in found.values() for reading in readings)
    assert min(states[state] for state in ("open", "closed", "part", "quarantined")) > 20


def test_a_long_history_is_not_read_again(api: Api) -> None:
    """An alert that flaps for months: a new telling reads its last episodes, and not all of them."""
    old = [alert(start=2 * number, end=2 * number + 1, node="flaps") for number in range(3_000)]
    receive(api.engine, Envelope(SOURCE, payload(*old), at(6_000)), DEFAULT_IGNORED)
    asked: list[int] = []
    read = api.engine.dialect.do_execute

    def counting(cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        read(cursor, statement, parameters, context)
        if cursor.description is not None:
            asked.append(cursor.rowcount)

    api.engine.dialect.do_execute = counting  # type: ignore[method-assign]
    done = receive(api.engine, Envelope(SOURCE, payload(alert(start=6_000, node="flaps")), at(6_001)), DEFAULT_IGNORED)
    assert (done.events, done.episodes) == (1, 1)
    assert max(asked) <= 4
