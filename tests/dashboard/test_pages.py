"""Each page with data, empty, without a database and under a wrong address; its numbers are the ledger's."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from streamlit.testing.v1 import AppTest

from dashboard import format as f
from tests.conftest import run_cli
from tests.dashboard.conftest import PAGES, Visit, text_of
from tests.dashboard.ledgers import FILES
from warehouse import views
from warehouse.config import Config
from warehouse.model.state import GpuTimeClass, State
from warehouse.report.figures import minutes

_NOBODY = "postgresql://reader:secret@127.0.0.1:9/ledger"


@contextmanager
def _question(url: str) -> Iterator[tuple[Any, views.Question]]:
    ledger = views.Ledger.open(Config(home=Path("/nonexistent"), database_url=url, prometheus_url=None))
    with ledger.snapshot() as (connection, revision):
        yield connection, views.ask(connection, revision, None, None)


@cache
def _json(url: str, *arguments: str) -> dict[str, Any]:
    answer = run_cli(url, *arguments, "--format", "json")
    assert answer.code == 0, answer.err
    found: dict[str, Any] = json.loads(answer.out)
    return found


def _popovers(at: AppTest) -> list[Any]:
    return [block.proto.popover for block in at.get("popover")]


def _metrics(at: AppTest) -> dict[str, str]:
    return {metric.label: metric.value for metric in at.metric}


def test_the_overview_says_what_the_command_line_says(site_url: str, visit: Visit) -> None:
    told = _json(site_url, "goodput")
    at = visit(site_url, rev=str(told["revision"]), to=told["window"]["to"])
    lost = sum(told["classes"][name] for name in ("unplanned", "planned", "overhead"))
    assert _metrics(at) == {
        "Goodput of installed": f.percent(told["goodput_of_installed"]),
        "Goodput of allocated": f.percent(told["goodput_of_allocated"]),
        "Availability": f.percent(told["availability"]),
        "GPU-minutes lost": f.short_minutes(lost),
        "Cost of loss": f.short_money(told["cost_of_loss"], "USD"),
    }
    assert all(" / " in metric.help or "+" in metric.help for metric in at.metric)
    assert f"revision {told['revision']}" in text_of(at)


def test_every_chart_has_words_and_its_figures_as_a_table(site_url: str, visit: Visit) -> None:
    at = visit(site_url, to="2025-03-20")
    charts = at.get("plotly_chart")
    assert [chart.proto.alt.split(":")[0] for chart in charts] == [
        "From installed to good, in GPU-minutes",
        "Share of installed time that was lost, per day",
        "Cost by cause",
    ]
    assert text_of(at).count("<table") == 1 + len(charts)


def test_the_parts_sum_to_what_the_headline_says(site_url: str, trace_url: str) -> None:
    for url in (site_url, trace_url):
        with _question(url) as (connection, question):
            answer: dict[str, Any] = views.goodput(connection, question, "state")
            parts = views.bridge(connection, question, answer["classes"])
            causes = views.cause_losses(connection, question)
            days = views.calendar(connection, question, "day")
            months = views.calendar(connection, question, "month")
        assert sum(part.gpu_ms for part in parts) == answer["installed_gpu_ms"]
        for name in GpuTimeClass:
            whole = answer["classes"][name.value]
            assert sum(part.gpu_ms for part in parts if part.gpu_class is name) == whole
        charged = [part for part in parts if part.gpu_class in views.CHARGED]
        assert sum((part.cost or Decimal(0) for part in charged), Decimal(0)) == Decimal(answer["cost_of_loss"])
        assert sum((cause.cost or Decimal(0) for cause in causes), Decimal(0)) == Decimal(answer["cost_of_loss"])
        assert sum(cause.lost_gpu_ms for cause in causes) == sum(part.gpu_ms for part in charged)
        assert causes[-1].code is None
        for buckets in (days, months):
            assert sum(bucket.installed_gpu_ms for bucket in buckets) == answer["installed_gpu_ms"]
            assert all(sum(bucket.classes.values()) == bucket.installed_gpu_ms for bucket in buckets)


def test_the_kept_part_of_a_partial_state_is_good(site_url: str) -> None:
    with _question(site_url) as (connection, question):
        answer: dict[str, Any] = views.goodput(connection, question, "state")
        parts = {
            (part.gpu_class, part.state): part.gpu_ms for part in views.bridge(connection, question, answer["classes"])
        }
    two_days_of_a_node = 8 * 2 * 86_400_000
    assert parts[GpuTimeClass.UNPLANNED, State.DEGRADED] == two_days_of_a_node * 4 // 10
    assert (GpuTimeClass.GOOD, State.DEGRADED) not in parts


def test_a_fleet_that_nobody_observed_is_told_so_first(trace_url: str, visit: Visit) -> None:
    at = visit(trace_url)
    told = text_of(at)
    assert "97.68 % of installed GPU time is unknown: no source says what it did." in told
    assert "mostly unknown" in told and "behind" in told
    assert _metrics(at)["Goodput of allocated"] == "-"
    deltas = [metric.delta for metric in at.metric]
    assert deltas[0] == "lower bound; up to 97.7 %"
    assert deltas[2] == "upper bound; 97.68 % is unknown"
    bridge = at.get("plotly_chart")[0].proto
    assert "Unknown · not observed" in bridge.alt
    assert "Good 0, 0 %" in bridge.alt


def test_incidents_are_listed_by_cost_and_filtered(trace_url: str, visit: Visit) -> None:
    listed = _json(trace_url, "incidents")["incidents"]
    at = visit(trace_url, "incidents")
    shown = re.findall(r'href="/incident\?id=(\d+)"', text_of(at))
    assert shown == [str(incident["id"]) for incident in listed[:50]]
    assert f"{len(listed)} incidents touch this window, none of them still open." in text_of(at)
    next(box for box in at.selectbox if box.label == "Cause").set_value("power/psu").run()
    psu = [str(incident["id"]) for incident in listed if incident["cause"] == "power/psu"]
    assert re.findall(r'href="/incident\?id=(\d+)"', text_of(at)) == psu
    assert at.query_params["cause"] == "power/psu"
    next(box for box in at.text_input if box.label == "Node").set_value("no such node").run()
    assert [note.value for note in at.info] == ["No incident passes the filter."]


def test_pages_of_the_list_follow_each_other(trace_url: str, visit: Visit) -> None:
    at = visit(trace_url, "incidents", page="2")
    second = re.findall(r'href="/incident\?id=(\d+)"', text_of(at))
    at = visit(trace_url, "incidents")
    next(button for button in at.button if button.label == "Next").click().run()
    assert re.findall(r'href="/incident\?id=(\d+)"', text_of(at)) == second
    assert len(second) == 50


def test_an_incident_shows_its_money_to_the_last_figure(site_url: str, visit: Visit) -> None:
    listed = _json(site_url, "incidents")["incidents"]
    number = next(incident["id"] for incident in listed if incident["cause"] == "facility/data_hall_power_loss")
    told = _json(site_url, "incident", "show", str(number))
    at = visit(site_url, "incident", id=f"INC-{number}")
    found = _metrics(at)
    assert found["Cost of loss"] == f.money(told["cost_of_loss"], "USD")
    assert found["GPU-minutes lost"] == minutes(told["lost_gpu_ms"])
    assert (found["GPUs"], found["Status"]) == ("16", "Closed")
    page = text_of(at)
    assert sum(Decimal(phase["cost_of_loss"]) for phase in told["phases"]) == Decimal(told["cost_of_loss"])
    for phase in told["phases"]:
        assert f.money(phase["cost_of_loss"], "USD") in page
    assert "/ 60 × 2.45 USD per GPU-hour" in page
    assert "Jobs: llm" in page and "Utility dip" in page
    assert told["cause_detail"]["first_step"] in page


def test_an_open_incident_is_provisional(site_url: str, visit: Visit) -> None:
    listed = _json(site_url, "incidents", "--status", "open")["incidents"]
    at = visit(site_url, "incident", id=str(listed[0]["id"]))
    assert "Provisional: this incident is still open" in at.warning[0].value


def test_what_sources_wrote_stays_text(site_url: str, visit: Visit) -> None:
    listed = _json(site_url, "incidents")["incidents"]
    number = next(incident["id"] for incident in listed if incident["cause"] == "cooling/gpu_thermal")
    page = text_of(visit(site_url, "incident", id=str(number)))
    assert "&lt;b&gt;hot&lt;/b&gt; at $5" in page and "<b>" not in page


@pytest.mark.parametrize(("asked", "said"), [("999", "it may not exist"), ("abc", "is no incident number")])
def test_an_unknown_incident_leads_back(site_url: str, visit: Visit, asked: str, said: str) -> None:
    at = visit(site_url, "incident", id=asked)
    assert any(said in note.value for note in (*at.warning, *at.error))
    assert 'href="/incidents"' in text_of(at)


@pytest.mark.parametrize("page", PAGES)
def test_an_empty_ledger_shows_the_first_steps(empty_url: str, visit: Visit, page: str) -> None:
    at = visit(empty_url, page, id="5")
    assert "The ledger is empty. Three steps to the first figure" in text_of(at)
    assert [block.value for block in at.code] == [
        "gpu-minutes fleet load fleet.csv",
        "gpu-minutes rates load rates.csv",
        "gpu-minutes import evidence evidence.csv",
    ]


@pytest.mark.parametrize("page", PAGES)
def test_without_a_database_one_line_says_so(visit: Visit, page: str) -> None:
    at = visit(_NOBODY, page, id="5")
    assert len(at.error) == 1
    assert "does not answer" in at.error[0].value
    assert "secret" not in at.error[0].value
    assert not at.metric


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"from": "yesterday"}, "'from'"),
        ({"rev": "999"}, "There is no revision 999"),
        ({"card": "nosuch"}, "there is no rate card 'nosuch'"),
        ({"from": "2025-03-02", "to": "2025-03-01"}, "'to' is not after 'from'"),
    ],
)
def test_a_wrong_address_is_explained(
    site_url: str, visit: Visit, page: str, parameters: dict[str, str], said: str
) -> None:
    at = visit(site_url, page, id="1", **parameters)
    assert any(said.casefold() in error.value.casefold().replace("\\", "") for error in at.error)
    at.button[0].click().run()
    assert not at.error and not at.exception


def test_another_card_gives_other_money(site_url: str, visit: Visit) -> None:
    told = _json(site_url, "goodput", "--card", "contract", "--to", "2025-03-19")
    at = visit(site_url, card="contract", to="2025-03-19")
    assert _metrics(at)["Cost of loss"] == f.short_money(told["cost_of_loss"], "USD")
    assert "prices: contract" in text_of(at)


def test_the_scope_follows_where_the_menu_drops_it(site_url: str, visit: Visit) -> None:
    at = visit(site_url, to="2025-03-06")
    at.switch_page(PAGES["incidents"])
    del at.query_params["to"]
    at.run()
    assert at.query_params["to"] == "2025-03-06"
    assert "1 Mar 2025 to 6 Mar 2025" in [popover.label for popover in _popovers(at)]


def test_without_a_price_there_is_a_dash_and_no_zero(database_url: str, visit: Visit, tmp_path: Path) -> None:
    for command, name in (("fleet", "fleet.csv"), ("import", "evidence.csv")):
        (tmp_path / name).write_text(FILES[name], encoding="utf-8")
        kind = "load" if command == "fleet" else "evidence"
        assert run_cli(database_url, command, kind, name, cwd=tmp_path).code == 0
    at = visit(database_url)
    assert _metrics(at)["Cost of loss"] == "-"
    assert "none loaded" in text_of(at)


def test_prices_alone_are_not_yet_a_ledger(database_url: str, visit: Visit, tmp_path: Path) -> None:
    (tmp_path / "rates.csv").write_text(FILES["rates.csv"], encoding="utf-8")
    assert run_cli(database_url, "rates", "load", "rates.csv", cwd=tmp_path).code == 0
    assert "Three steps to the first figure" in text_of(visit(database_url))
    (tmp_path / "fleet.csv").write_text(FILES["fleet.csv"], encoding="utf-8")
    assert run_cli(database_url, "fleet", "load", "fleet.csv", cwd=tmp_path).code == 0
    assert "1. Say which GPUs are installed (done)" in text_of(visit(database_url))


def test_a_merged_incident_leads_to_where_it_went(site_url: str, visit: Visit) -> None:
    # Without evidence of its own: no list and no sum sees it.
    engine = create_engine(site_url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text("insert into incident overriding system value values (77, 2, 1)"))
    engine.dispose()
    at = visit(site_url, "incident", id="77")
    assert [note.value for note in at.info] == ["INC-77 was merged into INC-2: its evidence and its cost are there."]
    assert 'href="/incident?id=2"' in text_of(at)
