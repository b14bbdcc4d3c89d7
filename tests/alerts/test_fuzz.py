"""Ten thousand bodies that no sender should send: no answer is a fault of ours, and no valid alert is lost."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import httpx
import pytest

from tests.alerts.deliveries import Api, alert, grafana_alert, grafana_payload, payload

BODIES = 10_000
AT_A_TIME = 8
SOURCES = 4
SEED = 20_261_001

NASTY: tuple[object, ...] = (
    None, True, 0, -1, 1.5, 1e308, 10**30, "", "\0", "a\0b", "\ud800", "\udfff\ud800", "é" * 300, "\u202e", "𝔊", [], {},
    [[]], {"a": {"b": [None]}}, ["x"] * 50, "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999999Z", "1969-12-31T23:59:59Z",
    "2026-10-01T12:00:00+99:99", "2026-10-01T24:00:00Z", "2026-10-01", "infinity", "-infinity", "epoch", "now",
    "2026-13-01T00:00:00Z", "2026-10-01T12:00:00.9999999999999Z", "'; drop table alert_event; --", "%s%(x)s:y",
    "firing", "resolved", "NaN", "{{ $value }}",
)  # fmt: skip
# JSON that Python's own writer does not write.
RAW = (
    b"NaN", b"-Infinity", b"1e999", b"9" * 5_000, b"-" + b"9" * 400, b'"\xff"', b'"\xed\xa0\x80"', b'"\\ud800\\u0000"',
    b'"\x00\x01"', b"[" * 5_000 + b"]" * 5_000, b"[" * 5_000, b'{"a":1,"a":2}', b'"\\', b"",
)  # fmt: skip
MARK = "RAW-GOES-HERE"


def document(rng: random.Random, number: int) -> tuple[dict[str, object], list[str]]:
    """A delivery of valid alerts, each with a node of its own, and those nodes."""
    nodes = [f"v{number}-{part}" for part in range(rng.randint(1, 3))]
    if rng.random() < 0.2:
        body = grafana_payload(*(grafana_alert("2026-10-01T14:00:00.157076+02:00", node=node) for node in nodes))
    else:
        ends = [rng.choice([None, rng.randint(1, 90)]) for _ in nodes]
        body = payload(*(alert(node=node, end=end) for node, end in zip(nodes, ends, strict=True)))
    return json.loads(body), nodes


def nasty(rng: random.Random) -> Any:
    """Something that nobody expects; a copy, since it may be spoilt further."""
    return deepcopy(rng.choice([*NASTY, MARK]))


def spoil_other(rng: random.Random, item: dict[str, object]) -> None:
    """Spoils one place of an alert that is to be lost or kept, as it comes."""
    key = rng.choice([*item, "labels", "annotations", "startsAt", "endsAt", "status"])
    where = item.get(key)
    if isinstance(where, dict) and where and rng.random() < 0.7:
        where[rng.choice([*where, "new", "\0", "\ud800", ""])] = nasty(rng)
    elif rng.random() < 0.15:
        item.pop(key, None)
    else:
        item[key] = nasty(rng)


def wide(rng: random.Random, body: dict[str, object]) -> None:
    """Changes what is not needed: it must not matter at all."""
    for _ in range(rng.randint(1, 3)):
        body[rng.choice([key for key in body if key != "alerts"] + ["new"])] = nasty(rng)


def bodies(seed: int) -> Iterator[tuple[bytes, list[str]]]:
    """Yields bodies, with the nodes of alerts in them that must not be lost."""
    rng = random.Random(seed)
    for number in range(BODIES):
        body, nodes = document(rng, number)
        alerts = body["alerts"]
        assert isinstance(alerts, list)
        kind = rng.choice(("neighbour", "neighbour", "wide", "bytes", "cut", "noise"))
        if kind == "wide":
            wide(rng, body)
            yield json.dumps(body).encode(), nodes
        elif kind == "neighbour":
            other = rng.choice([alert(node="other", start=rng.randint(-9, 9)), nasty(rng)])
            if isinstance(other, dict) and other:
                for _ in range(rng.randint(1, 4)):
                    spoil_other(rng, other)
            alerts.insert(rng.randint(0, len(alerts)), other)
            raw = rng.choice([piece for piece in RAW if piece.count(b"[") != 5_000 and piece not in (b"", b'"\\')])
            yield json.dumps(body).encode().replace(f'"{MARK}"'.encode(), raw), nodes
        elif kind == "noise":
            yield rng.randbytes(rng.randint(0, 200)), []
        else:
            text = bytearray(json.dumps(body).encode())
            if kind == "cut":
                del text[rng.randrange(len(text)) :]
            for _ in range(rng.randint(1, 5)):
                place = rng.randrange(len(text) + 1)
                text[place : place + rng.randint(0, 3)] = rng.choice([*RAW, rng.randbytes(2)])
            yield bytes(text), []


async def deliver(
    api: Api, sent: Iterator[tuple[bytes, list[str]]], answered: Callable[[httpx.Response], None]
) -> list[str]:
    """Sends all of them, a few at a time; gives the nodes of alerts that must not be lost."""
    owed: list[str] = []

    async def sender(client: httpx.AsyncClient, number: int) -> None:
        source = {"source": f"sender-{number % SOURCES}"}  # writers of one source wait for each other
        for body, nodes in sent:
            answer = await client.post("/v1/alertmanager", content=body, params=source)
            answered(answer)
            owed.extend(nodes)
            if nodes:
                assert answer.status_code == 200, (answer.text, body[:500])

    async with api.client() as client:
        await asyncio.gather(*(sender(client, number) for number in range(AT_A_TIME)))
    return owed


@pytest.mark.slow
def test_no_body_is_a_fault_of_ours_and_no_valid_alert_is_lost(api: Api) -> None:
    codes: Counter[int] = Counter()
    refused = 0

    def answered(answer: httpx.Response) -> None:
        nonlocal refused
        codes[answer.status_code] += 1
        assert answer.status_code in (200, 400), answer.text
        refused += answer.json().get("refused_count", 0)

    owed = asyncio.run(deliver(api, bodies(SEED), answered))
    assert codes.total() == BODIES
    assert min(codes[200], codes[400]) > BODIES // 10  # both kinds were there
    kept = {row.node for row in api.sql("select distinct labels ->> 'node' as node from alert_event")}
    assert set(owed) - kept == set()
    assert len(owed) > BODIES // 2
    # Every refusal is there to be read, by its reason; a whole body that was refused before within ten minutes, once.
    (letters,) = api.sql("select count(alert_index) as of_alerts, count(*) as all_of_them from alert_dead_letter")
    assert letters.of_alerts == refused > 500
    assert letters.all_of_them - letters.of_alerts <= codes[400]
    assert api.count("alert_delivery") + api.count("alert_repeat") >= codes[200]
