"""Who may deliver, what probes are told, and what happens while the database is away."""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from tests.alerts.deliveries import Api, alert, at, open_api, payload
from tests.conftest import Cli
from tests.servers import debian_postgres
from warehouse.store import migrate, tokens

BODY = payload(alert(node="n1"))


@pytest.mark.parametrize(
    "header",
    [
        {}, {"Authorization": ""}, {"Authorization": "Bearer"}, {"Authorization": "Bearer "},
        {"Authorization": "Bearer gpm_" + "A" * 43}, {"Authorization": "Basic dGVzdDp0ZXN0"},
        {"Authorization": "Bearer " + "x" * 10_000}, {"Authorization": b"Bearer \xff\xfe"},
    ],
    ids=repr,
)  # fmt: skip
def test_without_a_valid_token_nothing_is_read_or_stored(api: Api, header: dict[str, str]) -> None:
    api.secret = ""
    answer = api.ask("POST", "/v1/alertmanager", content=BODY, headers={"Authorization": ""} | header)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert api.count("alert_delivery") == api.count("alert_dead_letter") == 0


def test_a_token_is_used_and_revoked(api: Api) -> None:
    assert api.post(BODY, minutes=1).status_code == 200
    assert api.post(BODY, minutes=1.5).status_code == 200
    with api.engine.begin() as connection:
        (token,) = tokens.listed(connection)
        assert (token.name, token.last_used_ms, token.revoked_ms) == ("test", at(1), None)
        assert tokens.revoke(connection, "test", at(2))
        assert not tokens.revoke(connection, "test", at(3))
    assert api.post(BODY, minutes=3).status_code == 401
    with api.engine.begin() as connection:
        (token,) = tokens.listed(connection)
    assert (token.last_used_ms, token.revoked_ms) == (at(1), at(2))


def test_only_a_hash_of_a_secret_is_stored(api: Api) -> None:
    assert re.fullmatch(r"gpm_[A-Za-z0-9_-]{43}", api.secret)
    assert api.post(BODY).status_code == 200
    for (table,) in api.sql(
        "select relname from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'"
    ):
        rows = api.sql(f"select t::text from {table} t")
        assert api.secret not in str(rows), table
    assert api.sql("select sha256 from api_token") == [(hashlib.sha256(api.secret.encode()).digest(),)]


def test_the_token_command(cli: Cli) -> None:
    made = cli("token", "create", "alertmanager")
    secret = made.out.splitlines()[-1]
    assert (made.code, made.out, secret.startswith("gpm_")) == (0, f"{secret}\n", True)
    again = cli("token", "create", "alertmanager")
    assert (again.code, again.out, again.err.count("\n")) == (2, "", 1)
    for name in ("", "Über", "a b", "-a", "x" * 64):
        refused = cli("token", "create", "--", name)
        assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert (cli("token", "revoke", "nobody").code, cli("token", "revoke", "alertmanager").code) == (2, 0)
    assert "before" in cli("token", "revoke", "alertmanager").out
    assert cli("token", "create", "alertmanager").code == 2  # a revoked name stays taken
    for form in ("table", "json", "csv"):
        listed = cli("token", "list", "--format", form)
        assert (listed.code, "alertmanager" in listed.out, secret in listed.out) == (0, True, False)


def test_probes_need_no_token_and_everything_else_is_not_there(api: Api) -> None:
    api.secret = ""
    assert [api.ask("GET", path).status_code for path in ("/healthz", "/readyz", "/metrics")] == [200, 200, 200]
    gone = ("/", "/docs", "/redoc", "/openapi.json", "/v1/alertmanager/x")
    assert [api.ask("GET", path).status_code for path in gone] == [404] * len(gone)
    assert api.ask("GET", "/v1/alertmanager").status_code == 405


def test_an_old_schema_is_not_ready(api: Api) -> None:
    migrate.downgrade(api.engine, "0002")
    answer = api.ask("GET", "/readyz")
    assert (answer.status_code, answer.text) == (503, "the schema is at 0002, this version needs 0003\n")


def test_the_page_of_metrics_is_sound(api: Api) -> None:
    api.post(payload(alert(node="n1"), alert("GpuMinutesHeartbeat")))
    api.post(b"{")
    page = api.ask("GET", "/metrics")
    lint = subprocess.run(["promtool", "check", "metrics"], input=page.content, capture_output=True)
    assert (lint.returncode, lint.stderr) == (0, b"")
    for line in (
        'gpuminutes_api_deliveries_total{result="stored",source="alertmanager"} 1.0',
        'gpuminutes_api_alerts_total{result="used",source="alertmanager"} 2.0',
        'gpuminutes_alert_episodes{source="alertmanager",state="open"} 2.0',
        'gpuminutes_alert_dead_letters{source="alertmanager"} 1.0',
        "gpuminutes_api_database_up 1.0",
    ):
        assert line in page.text.splitlines()


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[tuple[Api, list[object]]]:
    """A service on a server of its own, which the test may stop; the list holds what ends it."""
    running = debian_postgres()
    url = running.__enter__()
    admin = create_engine(url.format("postgres").replace("postgresql:", "postgresql+psycopg:"))
    admin.dispose()
    api = open_api(url.format("postgres"))
    ended: list[object] = [running]
    yield api, ended
    api.engine.dispose()
    if ended:
        running.__exit__(None, None, None)


def test_while_the_database_is_away_senders_are_told_to_come_again(
    mortal: tuple[Api, list[object]], caplog: pytest.LogCaptureFixture
) -> None:
    api, ended = mortal
    assert api.post(BODY).status_code == 200
    ended.pop().__exit__(None, None, None)  # type: ignore[attr-defined]
    answer = api.post(BODY)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert api.ask("GET", "/healthz").status_code == 200
    assert api.ask("GET", "/readyz").status_code == 503
    page = api.ask("GET", "/metrics")
    assert (page.status_code, "gpuminutes_api_database_up 0.0" in page.text) == (200, True)
    assert "gpuminutes_alert_episodes" not in page.text
    assert api.secret not in caplog.text


def test_sessions_that_the_server_ended_are_found_out(api: Api) -> None:
    assert api.post(BODY).status_code == 200
    other = create_engine(api.engine.url, isolation_level="AUTOCOMMIT")
    with other.connect() as connection:
        connection.exec_driver_sql(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )
    other.dispose()
    assert api.post(payload(alert(node="n2"))).status_code == 200


def test_a_writer_that_holds_the_source_makes_the_others_come_again(api: Api) -> None:
    """Nobody waits for ever: after three seconds the answer is 503, and nothing is stored."""
    other = create_engine(api.engine.url)
    with other.begin() as connection:
        connection.exec_driver_sql("select pg_advisory_xact_lock(hashtextextended('alerts alertmanager', 0))")
        assert api.post(BODY).status_code == 503
        assert api.post(BODY, source="another").status_code == 200
    other.dispose()
    assert api.sql("select source from alert_delivery") == [("another",)]
