"""One delivery: what is stored, what is answered, what is refused; rules R1 and R2."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator

import psycopg
import pytest

from tests.alerts.deliveries import MINUTE, Api, alert, at, grafana_alert, grafana_payload, payload
from warehouse.alerts.payload import EXCERPT_BYTES
from warehouse.api import body as body_module
from warehouse.store import alerts
from warehouse.store.inbox import CHANNEL


def test_a_delivery_is_kept_as_it_came_and_told_on(api: Api, database_url: str) -> None:
    body = payload(alert(node="n1"), alert(node="n2", end=5))
    with psycopg.connect(database_url, autocommit=True) as listener:
        listener.execute(f"listen {CHANNEL}".encode())
        answer = api.post(body, minutes=6)
        told = [note.payload for note in listener.notifies(timeout=5, stop_after=1)]
    assert answer.status_code == 200
    assert answer.json() == {
        "delivery": 1, "repeat": False, "alerts": 2, "used": 2, "new_events": 2, "changed_episodes": 2, "refused": [],
        "refused_count": 0,
    }  # fmt: skip
    assert told == ["alertmanager"]
    (row,) = api.sql("select source, body, sha256, ms_of(received_at) as at, truncated_alerts from alert_delivery")
    assert (row.source, row.body, row.sha256) == ("alertmanager", body, hashlib.sha256(body).digest())
    assert (row.at, row.truncated_alerts) == (at(6), 0)
    assert api.episodes() == [("n1", 0, None, "open"), ("n2", 0, 5, "closed")]


def test_the_same_body_is_a_repeat_for_ten_minutes_and_then_a_delivery(api: Api) -> None:
    body = payload(alert(node="n1"))
    repeats = [api.post(body, minutes=minutes).json()["repeat"] for minutes in (1, 2, 10.9, 11.1, 12)]
    assert repeats == [False, True, True, False, True]
    assert (api.count("alert_delivery"), api.count("alert_repeat"), api.count("alert_event")) == (2, 3, 1)
    with api.engine.connect() as connection:
        (episode,) = alerts.open_or_changed_episodes(connection)
    assert (episode.reading.proven_ms, episode.version) == (at(12), 1)


def test_another_source_is_another_episode(api: Api) -> None:
    for source in ("east", "west"):
        assert api.post(payload(alert(node="n1")), source=source).json()["changed_episodes"] == 1
    assert api.sql("select source from alert_episode order by 1") == [("east",), ("west",)]


@pytest.mark.parametrize("source", ["", "East", "a b", "x" * 41, "é", "a/b", "a\n", "'; drop table alert_event; --"])
def test_names_of_sources_are_checked(api: Api, source: str) -> None:
    answer = api.post(payload(alert()), source=source)
    assert (answer.status_code, "source" in answer.json()["detail"]) == (400, True)
    assert api.count("alert_delivery") == 0


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"\x1f\x8b\x08\x00\x00", "no JSON"),
        ("{}".encode("utf-16"), "no JSON"),
        (b"[]", "no JSON object"),
        (b"null", "no JSON object"),
        (b'{"alerts": {}}', "no list 'alerts'"),
        (b'{"version": "4"}', "no list 'alerts'"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"alerts": ' + b'{"a":' * 200_000, "nested too deeply"),
    ],
    ids=repr,
)
def test_a_malformed_body_is_a_dead_letter(api: Api, body: bytes, reason: str) -> None:
    for _ in range(2):
        answer = api.post(body, minutes=3)
        assert (answer.status_code, reason in answer.json()["detail"]) == (400, True), answer.text
    (row,) = api.sql("select reason, size_bytes, excerpt, alert_index, sha256 from alert_dead_letter")
    assert reason in row.reason
    assert (row.size_bytes, row.excerpt, row.alert_index) == (len(body), body[:EXCERPT_BYTES], None)
    assert row.sha256 == hashlib.sha256(body).digest()
    assert 'gpuminutes_api_deliveries_total{result="malformed",source="alertmanager"} 2.0' in metrics(api)


BROKEN: dict[str, object] = {
    "no object": 7,
    "null": None,
    "no status": {"labels": {"a": "b"}, "startsAt": "2026-10-01T12:00:00Z"},
    "status of a group": alert() | {"status": "suppressed"},
    "status is a list": alert() | {"status": ["firing"]},
    "no labels": alert() | {"labels": {}},
    "labels are a list": alert() | {"labels": ["a"]},
    "number as label": alert() | {"labels": {"alertname": 1}},
    "NUL in a label": alert(node="n\x001"),
    "NUL in a name": alert() | {"labels": {"a\x00": "b"}},
    "NUL in an annotation": alert() | {"annotations": {"summary": "\x00"}},
    "lone surrogate": alert(node="\ud800"),
    "start unset": alert() | {"startsAt": "0001-01-01T00:00:00Z"},
    "start missing": {k: v for k, v in alert().items() if k != "startsAt"},
    "start without offset": alert() | {"startsAt": "2026-10-01T12:00:00"},
    "start is a number": alert() | {"startsAt": 1759320000},
    "no such day": alert() | {"startsAt": "2026-02-30T12:00:00Z"},
    "before all time": alert() | {"startsAt": "1969-12-31T23:59:59Z"},
    "after all time": alert() | {"startsAt": "9999-12-31T23:59:59Z"},
    "year of five digits": alert() | {"startsAt": "12026-10-01T12:00:00Z"},
    "resolved without end": alert(end=3) | {"endsAt": "0001-01-01T00:00:00Z"},
    "resolved with a bad end": alert(end=3) | {"endsAt": "soon"},
    "link is a number": alert() | {"generatorURL": 10**40},
    "huge fingerprint": alert() | {"fingerprint": "HUGE"},
}


def raw(item: object) -> bytes:
    """JSON; a number of more digits than Python itself writes is put in afterwards."""
    text = json.dumps(item)
    return text.replace('"HUGE"', "9" * 5000).encode()


@pytest.mark.parametrize("what", BROKEN)
def test_one_broken_alert_does_not_cost_the_others(api: Api, what: str) -> None:
    good = [json.dumps(alert(node=node)).encode() for node in ("n1", "n2")]
    body = b'{"version":"4","alerts":[' + b",".join([good[0], raw(BROKEN[what]), good[1]]) + b"]}"
    answer = api.post(body, minutes=1)
    document = answer.json()
    assert (answer.status_code, document["alerts"], document["used"]) == (200, 3, 2), answer.text
    assert [refused["alert"] for refused in document["refused"]] == [1]
    assert [who for who, *_ in api.episodes()] == ["n1", "n2"]
    (row,) = api.sql("select delivery_id, alert_index, reason, excerpt from alert_dead_letter")
    assert (row.delivery_id, row.alert_index, row.reason) == (1, 1, document["refused"][0]["reason"])
    alone = api.post(b'{"alerts":[' + raw(BROKEN[what]) + b"]}")
    assert alone.status_code == 400
    assert api.count("alert_delivery") == 2


def test_bytes_that_are_no_utf8_spoil_only_their_alert(api: Api) -> None:
    body = payload(alert(node="n1"), alert(node="SPOILT"), alert(node="n2")).replace(b"SPOILT", b"\xff\xfe")
    document = api.post(body).json()
    assert (document["used"], document["refused"]) == (2, [{"alert": 1, "reason": "labels.node is not UTF-8"}])


def test_what_is_not_needed_may_be_anything(api: Api) -> None:
    """An unknown version, unknown fields, odd values of fields that are not read: accepted, and kept as they came."""
    more = {"version": "99", "groupKey": None, "status": 7, "new": {"a": [1, None]}, "commonLabels": "x"}
    item = alert(node="n1") | {"values": {"B": 1e400, "C": "NaN"}, "x": []}
    body = payload(item, **more).replace(b"Infinity", b"1e400")
    assert api.post(body).json()["used"] == 1
    assert api.sql("select body from alert_delivery") == [(body,)]
    assert api.post(b"\xef\xbb\xbf" + payload(alert(node="n2"))).json()["used"] == 1


def test_no_alert_at_all_is_no_fault(api: Api) -> None:
    answer = api.post(payload())
    assert (answer.status_code, answer.json()["alerts"]) == (200, 0)


@pytest.mark.parametrize(("said", "kept"), [(3, 3), (0, 0), (-1, None), ("3", None), (1.5, None), (True, None)])
def test_truncation_is_flagged(api: Api, said: object, kept: int | None) -> None:
    api.post(payload(alert(node="n1"), truncatedAlerts=said))
    assert api.sql("select truncated_alerts from alert_delivery") == [(kept,)]
    assert api.sql("select truncated from alert_episode") == [(kept != 0,)]


def test_grafana(api: Api) -> None:
    """Offsets, microseconds, more fields; and a resolved alert whose beginning was overwritten (grafana #106065)."""
    firing = grafana_alert("2026-10-01T14:00:00.157076+02:00", node="n1")
    assert api.post(grafana_payload(firing), minutes=1, source="grafana").json()["used"] == 1
    ended = grafana_alert("2026-10-01T14:07:30+02:00", "2026-10-01T14:07:30+02:00", node="n1")
    assert api.post(grafana_payload(ended), minutes=8, source="grafana").json()["used"] == 1
    assert api.episodes() == [("n1", 157 / MINUTE, 7.5, "closed"), ("n1", 7.5, 7.5, "part")]


def test_replicas_are_one_alert_and_their_labels_are_kept(api: Api) -> None:
    for replica in ("a", "b"):
        api.post(payload(alert(node="n1", replica=replica, severity="critical")))
    assert api.count("alert_event") == 1
    (row,) = api.sql("select labels, sender_fingerprint, generator_url from alert_episode")
    assert row.labels == {"alertname": "GpuDown", "node": "n1", "replica": "a", "severity": "critical"}
    assert row.sender_fingerprint == "c6eadffa33fcdf37"


def test_clocks_that_are_off_flag_and_move_nothing(api: Api) -> None:
    api.post(payload(alert(node="ahead", start=30)), minutes=0)
    api.post(payload(alert(node="end ahead", start=-5, end=30)), minutes=0)
    api.post(payload(alert(node="sent late", start=-5)), minutes=0, headers={"Date": "Thu, 01 Oct 2026 11:00:00 GMT"})
    api.post(payload(alert(node="fine", start=-5)), minutes=0, headers={"Date": "Thu, 01 Oct 2026 12:00:01 GMT"})
    rows = api.sql("select labels ->> 'node', skewed from alert_episode order by 1")
    assert [tuple(row) for row in rows] == [("ahead", True), ("end ahead", True), ("fine", False), ("sent late", True)]
    assert ("ahead", 30, None, "open") in api.episodes()
    assert ("end ahead", -5, 30, "closed") in api.episodes()


def test_a_body_beyond_the_limit_is_refused_while_it_comes(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_module.read_body, "__defaults__", (1000,))
    answer = api.post(payload(*[alert(node=f"n{number}") for number in range(10)]))
    assert answer.status_code == 413
    (row,) = api.sql("select reason, alert_index from alert_dead_letter")
    assert "larger than" in row.reason
    assert api.count("alert_delivery") == 0


def test_the_heartbeat_is_known_by_source_and_is_no_episode_to_deal_with(api: Api) -> None:
    body = payload(alert("GpuMinutesHeartbeat"))
    for minutes in (1, 2, 3):
        api.post(body, minutes=minutes)
    with api.engine.connect() as connection:
        assert alerts.heartbeats(connection) == {"alertmanager": at(3)}
        assert alerts.open_or_changed_episodes(connection) == []
    line = next(line for line in metrics(api).splitlines() if line.startswith("gpuminutes_alert_heartbeat_timestamp"))
    assert float(line.split()[-1]) == at(3) / 1000


def test_an_episode_waits_until_its_version_is_dealt_with(api: Api) -> None:
    api.post(payload(alert(node="n1"), alert(node="n2", end=4)), minutes=5)
    with api.engine.begin() as connection:
        found = alerts.open_or_changed_episodes(connection)
        assert sorted(episode.labels["node"] for episode in found) == ["n1", "n2"]
        closed = next(episode for episode in found if episode.reading.ends_ms is not None)
        api.post(payload(alert(node="n2", end=6)), minutes=7)  # it changes before the old version is dealt with
        alerts.set_processed(connection, [(episode.id, episode.version) for episode in found])
    with api.engine.begin() as connection:
        left = {episode.labels["node"]: episode for episode in alerts.open_or_changed_episodes(connection)}
        assert left.keys() == {"n1", "n2"}
        assert (left["n2"].version, left["n2"].processed, left["n2"].reading.ends_ms) == (2, 1, at(6))
        alerts.set_processed(connection, [(closed.id, 2)])
        assert [e.labels["node"] for e in alerts.open_or_changed_episodes(connection)] == ["n1"]
        assert len(alerts.open_or_changed_episodes(connection, limit=0)) == 0


def metrics(api: Api) -> str:
    return api.ask("GET", "/metrics").text


def test_a_body_that_does_not_end_is_given_up(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_module, "BODY_SECONDS", 0.1)

    async def slow() -> AsyncIterator[bytes]:
        yield b'{"alerts": ['
        await asyncio.sleep(2)
        yield b"]}"

    assert api.ask("POST", "/v1/alertmanager", content=slow()).status_code == 408
    assert api.count("alert_delivery") == api.count("alert_dead_letter") == 0
