"""A real Alertmanager delivers to the real command over loopback, with a token from a file; rules R7, R8 and R9."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Engine, create_engine

from tests.alertmanager import Alertmanager, alertmanager
from tests.alerts.serving import Served, serving
from tests.conftest import _fresh_database
from tests.servers import free_port
from warehouse import clock
from warehouse.alerts.poll import AlertmanagerClient, AlertmanagerError, Listed, poll, poll_wanted
from warehouse.model.alert import AlertEpisode
from warehouse.model.time import MS_PER_HOUR, MS_PER_MINUTE, format_instant
from warehouse.store import alerts

CASES = ("plain", "silence", "inhibit", "truncate", "restart", "away", "beat", "repeat")
CONFIG = """
global: {resolve_timeout: 1h}
route:
  receiver: nobody
  group_by: [cluster, alertname, place]
  group_wait: 100ms
  group_interval: 300ms
  repeat_interval: 1h
  routes:
"""
ROUTE = "    - {{receiver: {case}, matchers: ['case=\"{case}\"'], repeat_interval: {repeat}}}\n"
RECEIVER = """  - name: {case}
    webhook_configs:
      - url: {url}/v1/alertmanager?source={case}
        max_alerts: {most}
        http_config: {{authorization: {{credentials_file: {credentials}}}}}
"""
INHIBIT = """inhibit_rules:
  - source_matchers: ['alertname="HallDown"']
    target_matchers: ['alertname="GpuDown"']
    equal: [case]
"""


def config(url: str, credentials: Path) -> str:
    routes = "".join(ROUTE.format(case=case, repeat="500ms" if case == "repeat" else "1h") for case in CASES)
    receivers = "".join(
        RECEIVER.format(case=case, url=url, most=2 if case == "truncate" else 0, credentials=credentials)
        for case in CASES
    )
    return f"{CONFIG}{routes}receivers:\n  - name: nobody\n{receivers}{INHIBIT}"


@dataclass
class Site:
    """Everything of a site that has to do with alerts."""

    served: Served
    manager: Alertmanager
    engine: Engine

    def episodes(self, case: str) -> dict[str, AlertEpisode]:
        """The open or unprocessed episodes of a case, by node; the last beginning of each."""
        with self.engine.connect() as connection:
            found = [e for e in alerts.open_or_changed_episodes(connection) if e.source == case]
        return {e.labels["node"]: e for e in sorted(found, key=lambda e: e.reading.starts_ms)}

    def until(self, case: str, holds: Callable[[dict[str, AlertEpisode]], bool]) -> dict[str, AlertEpisode]:
        """Waits until something holds of the episodes of a case."""
        deadline = time.monotonic() + 15
        while not holds(found := self.episodes(case)):
            assert time.monotonic() < deadline, f"{found}\n{self.manager.log()[-3000:]}"
            time.sleep(0.05)
        return found

    def poll(self, case: str) -> Listed:
        """Asks Alertmanager for what it has for the receiver of a case."""
        with AlertmanagerClient(self.manager.url, receiver=case) as client:
            return poll(self.engine, client, clock.now_ms(), case)


@pytest.fixture(scope="module")
def site(embedded_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("alertmanager")
    url = _fresh_database(embedded_server)
    with serving(url, folder) as served, alertmanager(folder, config(served.url, served.credentials)) as manager:
        engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
        yield Site(served, manager, engine)
        engine.dispose()


def said(case: str, node: str, ago_ms: int = MS_PER_MINUTE, end_ms: int | None = None, **labels: str) -> dict[str, Any]:
    """An alert as Prometheus sends it; of a firing one the end is a lease."""
    now = clock.now_ms()
    name = labels.pop("alertname", "GpuDown")
    return {
        "labels": {"alertname": name, "case": case, "node": node, "cluster": "c1", **labels},
        "annotations": {"summary": f"{node} is down"},
        "startsAt": format_instant(BEGAN - ago_ms),
        "endsAt": format_instant(now + MS_PER_HOUR if end_ms is None else end_ms),
        "generatorURL": "http://prometheus.example:9090/graph",
    }


BEGAN = clock.now_ms()


def test_fires_resolves_and_comes_in_any_order(site: Site) -> None:
    site.manager.post(said("plain", "n1"), said("plain", "n2"))
    found = site.until("plain", lambda e: len(e) == 2)
    assert {e.reading.state for e in found.values()} == {"open"}
    assert found["n1"].reading.starts_ms == BEGAN - MS_PER_MINUTE
    ended = clock.now_ms()
    site.manager.post(said("plain", "n1", end_ms=ended))
    found = site.until("plain", lambda e: e["n1"].reading.state == "closed")
    assert found["n1"].reading.ends_ms == ended
    assert found["n2"].reading.state == "open"
    # The very bodies, delivered to another source backwards: resolved before firing.
    rows = site.served.rows("select body from alert_delivery where source = 'plain' order by id desc")
    assert len(rows) >= 2
    headers = {"Authorization": f"Bearer {site.served.credentials.read_text().strip()}"}
    for (body,) in rows:
        url = f"{site.served.url}/v1/alertmanager?source=backwards"
        assert httpx.post(url, content=body, headers=headers, trust_env=False).status_code == 200  # type: ignore[arg-type]
    again = site.episodes("backwards")
    assert {n: (e.reading.starts_ms, e.reading.ends_ms) for n, e in again.items()} == {
        n: (e.reading.starts_ms, e.reading.ends_ms) for n, e in found.items()
    }


def test_repeats_prove_that_it_still_fires(site: Site) -> None:
    site.manager.post(said("repeat", "n1"))
    first = site.until("repeat", lambda e: len(e) == 1)["n1"]
    until_ms = (first.reading.proven_ms or 0) + 1_000
    later = site.until("repeat", lambda e: (e["n1"].reading.proven_ms or 0) > until_ms)["n1"]
    assert (later.version, later.id) == (1, first.id)
    rows = site.served.rows(
        "select count(*), (select count(*) from alert_repeat r join alert_delivery d on d.id = r.delivery_id "
        "where d.source = 'repeat') from alert_delivery where source = 'repeat'"
    )
    assert rows[0][0] == 1 and int(str(rows[0][1])) >= 2


def test_a_silenced_alert_is_found_by_asking_and_its_absence_is_no_end(site: Site) -> None:
    """Alertmanager #226: neither the alert nor its end is sent."""
    site.manager.post(said("silence", "open"))
    site.until("silence", lambda e: len(e) == 1)
    now = clock.now_ms()
    silence = site.manager.silence(format_instant(now), format_instant(now + MS_PER_HOUR), case="silence")
    site.manager.post(said("silence", "born silenced"))
    time.sleep(1)  # five group intervals: it would have come
    assert site.episodes("silence").keys() == {"open"}
    listed = site.poll("silence")
    assert (listed.silenced, listed.refused) == (2, ())
    found = site.episodes("silence")
    assert {n: e.marks.silenced for n, e in found.items() if e.marks} == {
        "open": True,
        "born silenced": True,
    }
    born = found["born silenced"]
    assert born.reading.starts_ms == BEGAN - MS_PER_MINUTE
    assert born.reading.proven_ms is not None and abs(born.reading.proven_ms - now) < MS_PER_MINUTE
    version = found["open"].version
    site.manager.post(said("silence", "open", end_ms=clock.now_ms()))
    time.sleep(1)
    site.poll("silence")
    left = site.episodes("silence")["open"]
    assert (left.reading.state, left.version) == ("open", version)  # to be found out from the signals, not from absence
    assert left.listed_ms is not None and born.listed_ms is not None
    assert left.listed_ms < (site.episodes("silence")["born silenced"].listed_ms or 0)
    site.manager.unsilence(silence)
    site.until("silence", lambda e: "born silenced" in e and e["born silenced"].reading.state == "open")
    site.poll("silence")
    marks = site.episodes("silence")["born silenced"].marks
    assert marks is not None and not marks.silenced


def test_an_inhibited_alert_is_found_by_asking(site: Site) -> None:
    site.manager.post(said("inhibit", "hall", alertname="HallDown"))
    site.until("inhibit", lambda e: "hall" in e)
    site.manager.post(said("inhibit", "n1"))
    time.sleep(1)
    assert site.episodes("inhibit").keys() == {"hall"}
    assert site.poll("inhibit").inhibited == 1
    found = site.episodes("inhibit")
    assert {n: (e.marks.inhibited, e.reading.state) for n, e in found.items() if e.marks} == {
        "hall": (False, "open"),
        "n1": (True, "open"),
    }


def test_what_was_left_out_is_asked_for(site: Site) -> None:
    assert not poll_wanted(site.engine, "truncate")
    site.manager.post(*(said("truncate", f"n{number}") for number in range(5)))
    # A group may be sent before all of it is there; the last delivery is of the whole.
    deadline = time.monotonic() + 15
    while site.served.rows("select max(truncated_alerts) from alert_delivery where source = 'truncate'") != [(3,)]:
        assert time.monotonic() < deadline, site.manager.log()[-3000:]
        time.sleep(0.05)
    found = site.episodes("truncate")
    assert 2 <= len(found) < 5
    assert sum(e.reading.truncated for e in found.values()) >= 2
    assert poll_wanted(site.engine, "truncate")
    site.poll("truncate")
    assert site.episodes("truncate").keys() == {f"n{number}" for number in range(5)}
    assert not poll_wanted(site.engine, "truncate")


def test_a_restart_of_alertmanager_is_no_new_episode(site: Site) -> None:
    site.manager.post(said("restart", "n1"))
    first = site.until("restart", lambda e: len(e) == 1)["n1"]
    site.manager.stop()
    with AlertmanagerClient(site.manager.url) as client, pytest.raises(AlertmanagerError, match="cannot be reached"):
        poll(site.engine, client, clock.now_ms(), "restart")
    site.manager.start()
    site.manager.post(said("restart", "n1"))  # Prometheus says it again every minute
    ended = clock.now_ms()
    site.manager.post(said("restart", "n1", end_ms=ended))
    last = site.until("restart", lambda e: e["n1"].reading.state == "closed")["n1"]
    assert (last.id, last.reading.starts_ms, last.reading.ends_ms) == (first.id, first.reading.starts_ms, ended)


def test_the_heartbeat_comes_through(site: Site) -> None:
    site.manager.post(said("beat", "all", alertname="GpuMinutesHeartbeat"))
    deadline = time.monotonic() + 15
    while True:
        with site.engine.connect() as connection:
            if "beat" in (seen := alerts.heartbeats(connection)):
                break
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert 0 <= clock.now_ms() - seen["beat"] < MS_PER_MINUTE
    page = httpx.get(f"{site.served.url}/metrics", trust_env=False).text
    assert 'gpuminutes_alert_heartbeat_timestamp_seconds{source="beat"}' in page


def test_what_was_fired_while_the_service_was_away_is_delivered_afterwards(database_url: str, tmp_path: Path) -> None:
    port = free_port()
    with serving(database_url, tmp_path) as once:  # the token outlives it
        credentials = once.credentials.read_text()
    (tmp_path / "kept").write_text(credentials)
    with alertmanager(tmp_path, config(f"http://127.0.0.1:{port}", tmp_path / "kept")) as manager:
        manager.post(said("away", "n1"))
        deadline = time.monotonic() + 10
        while "connection refused" not in manager.log():
            assert time.monotonic() < deadline, manager.log()[-2000:]
            time.sleep(0.1)
        with serving(database_url, tmp_path, port=port) as served:
            deadline = time.monotonic() + 20
            while not served.rows("select 1 from alert_episode where state = 'open'"):
                assert time.monotonic() < deadline, manager.log()[-2000:]
                time.sleep(0.1)
