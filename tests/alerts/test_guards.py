"""The inbox guards itself: what was delivered stays, what is known only grows, and roles may do what they need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from tests.alerts.deliveries import Api, alert, open_api, payload
from warehouse.api.app import create_app
from warehouse.api.metrics import Metrics
from warehouse.api.service import Service
from warehouse.store import connect, grants, tokens

TABLES = ("alert_delivery", "alert_repeat", "alert_event", "alert_episode", "alert_dead_letter", "api_token")


@pytest.fixture
def api(any_database_url: str) -> Iterator[Api]:
    """A service on each kind of server, with a row in each table."""
    opened = open_api(any_database_url)
    body = payload(alert(node="n1"), alert(node="n2", end=4), 7)
    assert [opened.post(body, minutes=minutes).status_code for minutes in (5, 6)] == [200, 200]
    with opened.engine.begin() as connection:
        tokens.create(connection, "gone", "tester", 0)
        tokens.revoke(connection, "gone", 1)
    yield opened
    opened.engine.dispose()


def refused(api: Api, statement: str) -> str:
    with pytest.raises(DBAPIError) as found, api.engine.begin() as connection:
        connection.execute(text(statement))
    return str(found.value.orig)


@pytest.mark.parametrize("table", TABLES)
def test_rows_are_never_deleted(api: Api, table: str) -> None:
    assert api.count(table) > 0
    assert f"{table} is history" in refused(api, f"delete from {table}")
    assert "is history" in refused(api, f"truncate {table} cascade")


@pytest.mark.parametrize(
    "change",
    [
        "alert_delivery set body = 'x'", "alert_delivery set received_at = 'epoch'",
        "alert_repeat set received_at = 'epoch'",
        "alert_event set ends_at = starts_at where status = 'resolved'", "alert_event set labels = '{}'",
        "alert_dead_letter set reason = 'none'", "alert_episode set starts_at = 'epoch'",
        "alert_episode set labels = '{}'",
        "alert_episode set source = 'other'", "alert_episode set proven_at = null where proven_at is not null",
        "alert_episode set version = version - 1, processed = 0", "api_token set name = 'other' where name = 'test'",
        "api_token set sha256 = sha256('x')", "api_token set revoked_at = null where name = 'gone'",
        "api_token set last_used_at = null where name = 'test'",
    ],
)  # fmt: skip
def test_rows_say_what_they_said(api: Api, change: str) -> None:
    said = refused(api, f"update {change}")
    assert "is history" in said or "violates check" in said


@pytest.mark.parametrize(
    "change",
    [
        "state = 'part'", "state = 'open' where ends_at is not null", "state = 'closed' where ends_at is null",
        "state = 'quarantined' where ends_at > starts_at", "processed = version + 1",
        "ends_at = starts_at, state = 'closed'",
    ],
)  # fmt: skip
def test_episodes_make_sense(api: Api, change: str) -> None:
    assert "violates check constraint" in refused(api, f"update alert_episode set {change}")


def test_the_writers_role_is_enough_and_a_readers_is_not(api: Api) -> None:
    with api.engine.begin() as connection:
        for role in ("gm_alerts_writer", "gm_alerts_reader"):
            if connection.execute(text("select 1 from pg_roles where rolname = :r"), {"r": role}).first() is None:
                connection.execute(text(f"create role {role} login"))
    grants.grant(api.engine, "gm_alerts_writer")
    grants.grant(api.engine, "gm_alerts_reader", reader=True)
    answers = {}
    for role in ("gm_alerts_writer", "gm_alerts_reader"):
        plain = create_engine(api.engine.url.set(username=role, password=None))
        engine = connect.pooled(plain, 2)
        other = Api.__new__(Api)
        other.engine, other.clock, other.secret = engine, api.clock, api.secret
        other.app = create_app(Service(engine, Metrics(engine), now_ms=api.clock))
        answers[role] = other.post(payload(alert(node="n1", end=9), alert(node="n3"))).status_code
        engine.dispose()
    assert answers == {"gm_alerts_writer": 200, "gm_alerts_reader": 503}
    assert ("n1", 0, 9, "closed") in api.episodes()
