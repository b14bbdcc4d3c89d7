"""Two sites: own slots, own calendar, own currency; two currencies are never added."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import Engine

from tests.conftest import Cli
from tests.views.ledgers import (
    START,
    add_rates,
    ask,
    both_currencies,
    goodput,
    incident,
    note,
    rows,
    tile,
    two_sites,
    write,
)
from warehouse import views
from warehouse.errors import BadInput
from warehouse.model.evidence import Evidence
from warehouse.model.rate import RateSpec
from warehouse.model.state import State
from warehouse.model.time import MS_PER_HOUR, parse_instant
from warehouse.store import revisions

NYC, BER = (0, 2), (8, 10)


def down_everywhere(url: str) -> Engine:
    """Both nodes idle for ten hours but for one incident: three hours down in New York, two in Berlin."""
    engine = two_sites(url)
    hit = [
        Evidence("ops", "1", START + 2 * MS_PER_HOUR, START + 5 * MS_PER_HOUR, "n1", (NYC,), State.DOWN),
        Evidence("ops", "2", START + 2 * MS_PER_HOUR, START + 4 * MS_PER_HOUR, "b1", (BER,), State.DOWN),
        Evidence("ops", "3", START, START + 10 * MS_PER_HOUR, "n1+b1", (NYC, BER), State.IDLE),
    ]
    first, second, idle = note(engine, *hit)
    said = {"cause": "power/psu", "incident_id": 7}
    incident(engine, 7, "power/psu", [first, second])
    write(
        engine,
        [
            tile(NYC, 0, 2, State.IDLE, evidence_id=idle),
            tile(NYC, 2, 5, State.DOWN, evidence_id=first, **said),
            tile(NYC, 5, 10, State.IDLE, evidence_id=idle),
            tile(BER, 0, 2, State.IDLE, evidence_id=idle),
            tile(BER, 2, 4, State.DOWN, evidence_id=second, **said),
            tile(BER, 4, 10, State.IDLE, evidence_id=idle),
        ],
    )
    return engine


def test_a_site_has_its_own_slots_and_currency(database_url: str) -> None:
    engine = down_everywhere(database_url)
    both_currencies(engine)
    # 2 GPUs x 3 h x 2 USD; 2 GPUs x 2 h x 3 EUR.
    nyc, ber = goodput(engine, site="nyc"), goodput(engine, site="ber")
    assert (nyc["currency"], nyc["cost_of_loss"], "costs" in nyc) == ("USD", "12.00", False)
    assert (ber["currency"], ber["cost_of_loss"]) == ("EUR", "12.00")
    assert nyc["installed_gpu_ms"] == ber["installed_gpu_ms"] == 20 * MS_PER_HOUR
    assert rows(nyc)["down"]["gpu_ms"] == 6 * MS_PER_HOUR
    assert rows(ber)["down"]["gpu_ms"] == 4 * MS_PER_HOUR
    assert rows(nyc)["down"]["incidents"] == 1
    assert (nyc["availability"], ber["availability"]) == ("0.7000", "0.8000")


def test_two_currencies_stand_beside_each_other(database_url: str) -> None:
    engine = down_everywhere(database_url)
    both_currencies(engine)
    answer = goodput(engine, "cause")
    assert (answer["currency"], answer["cost_of_loss"]) == (None, None)
    assert answer["costs"] == {"EUR": "12.00", "USD": "12.00"}
    assert rows(answer)["power/psu"]["costs"] == {"EUR": "12.00", "USD": "12.00"}
    assert rows(answer)["none"]["costs"] == {"EUR": "0.00", "USD": "0.00"}
    by_site = rows(goodput(engine, "site"))
    assert by_site["nyc"]["costs"] == {"USD": "12.00"}
    assert by_site["ber"]["costs"] == {"EUR": "12.00"}
    assert by_site["nyc"]["cost_of_loss"] is None


def test_an_incident_of_two_sites_has_a_price_in_each(database_url: str) -> None:
    engine = down_everywhere(database_url)
    both_currencies(engine)
    with engine.connect() as connection:
        found = views.incident(connection, ask(connection), 7)
        (listed,) = views.incidents(connection, ask(connection, site="ber"))
        there = views.incident(connection, ask(connection, site="ber"), 7)
    assert found is not None and there is not None
    assert (found["currency"], found["costs"], found["gpus"]) == (None, {"EUR": "12.00", "USD": "12.00"}, 4)
    assert [phase["costs"] for phase in found["phases"]] == [{"EUR": "12.00", "USD": "12.00"}]  # type: ignore[attr-defined]
    assert [(p["currency"], p["cost_of_loss"]) for p in found["prices"]] == [("EUR", "12.00"), ("USD", "12.00")]  # type: ignore[attr-defined]
    assert (listed["gpus"], listed["nodes"], listed["cost_of_loss"], listed["currency"]) == (2, ["b1"], "12.00", "EUR")
    assert there["duration_ms"] == 2 * MS_PER_HOUR
    assert [e["id"] for e in there["evidence"]] == ["2"]  # type: ignore[attr-defined]


def test_months_and_days_are_those_of_the_site(database_url: str) -> None:
    engine = two_sites(database_url)
    year = (parse_instant("2026-03-01"), parse_instant("2026-12-01"))
    # Hours of the months in which the clock changes: New York in March and November, Berlin in March and October.
    for site, hours in (
        ("nyc", {"2026-03": 743, "2026-10": 744, "2026-11": 721}),
        ("ber", {"2026-03": 743, "2026-10": 745, "2026-11": 720}),
    ):
        with engine.connect() as connection:
            zone = views.reading_zone(connection, 2, site)
        start, end = parse_instant("2026-03-01", zone), parse_instant("2026-12-01", zone)
        months = rows(goodput(engine, "month", start, end, site=site))
        assert {key: months[key]["gpu_ms"] for key in hours} == {k: 2 * h * MS_PER_HOUR for k, h in hours.items()}
    with engine.connect() as connection:
        assert views.reading_zone(connection, 2).key == "UTC"
    utc = rows(goodput(engine, "month", *year))
    assert {row["gpu_ms"] for key, row in utc.items() if key in ("2026-03", "2026-10")} == {4 * 744 * MS_PER_HOUR}


def test_a_contract_prices_its_own_gpus_first(database_url: str) -> None:
    engine = down_everywhere(database_url)
    both_currencies(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("alter table tenure disable trigger only_closes")
        connection.exec_driver_sql("update tenure set contract = 'lease' where slot = 0")
        connection.exec_driver_sql("alter table tenure enable trigger only_closes")
    four = START + 4 * MS_PER_HOUR
    add_rates(engine, RateSpec("list", "H100", "USD", Decimal("0.5"), START, four, "lease"))
    # GPU 0 is leased: two hours at 0.50 and, once the contract has no rate, one at 2.00; GPU 1: three hours at 2.00.
    answer = goodput(engine, "node", site="nyc")
    assert answer["cost_of_loss"] == "9.00"
    with engine.connect() as connection:
        found = views.incident(connection, ask(connection, site="nyc"), 7)
    assert found is not None
    assert [(p.get("contract"), p["lost_gpu_ms"] // MS_PER_HOUR, p["cost_of_loss"]) for p in found["prices"]] == [  # type: ignore[attr-defined]
        (None, 4, "8.00"),
        ("lease", 2, "1.00"),
    ]


def test_what_no_rate_covers_is_unpriced(database_url: str) -> None:
    engine = down_everywhere(database_url)
    add_rates(engine, RateSpec("list", "H100", "USD", Decimal(2), START))
    answer = goodput(engine, "site")
    assert (answer["currency"], answer["cost_of_loss"]) == ("USD", "12.00")
    assert answer["unpriced_gpu_ms"] == 20 * MS_PER_HOUR
    assert rows(answer)["ber"]["cost_of_loss"] is None
    assert goodput(engine, site="ber")["cost_of_loss"] is None


def test_an_unknown_site_is_one_line_with_those_known(database_url: str) -> None:
    engine = two_sites(database_url)
    with engine.connect() as connection:
        revision = revisions.latest(connection)
        assert revision is not None
        with pytest.raises(BadInput, match="--site: there is no site 'par'; known are ber, nyc"):
            views.ask(connection, revision, None, None, site="par")


def test_the_commands_say_it(cli: Cli, database_url: str, tmp_path: Path) -> None:
    engine = down_everywhere(database_url)
    both_currencies(engine)
    table = cli("goodput", "--by", "site")
    assert table.code == 0, table.err
    assert "cost of loss: 12.00 EUR + 12.00 USD (unplanned + planned + overhead), card list" in table.out
    sheet = cli("goodput", "--by", "site", "--format", "csv").out.splitlines()
    assert sheet == [
        "site,gpu_ms,lost_gpu_ms,cost_of_loss_EUR,cost_of_loss_USD,incidents",
        "nyc,72000000,72000000,,12.00,1",
        "ber,72000000,72000000,12.00,,1",
    ]
    assert cli("goodput", "--site", "nyc", "--from", "2026-01-01").out.startswith(
        "site nyc, 2026-01-01T05:00:00Z to 2026-01-01T10:00:00Z (5 h)"
    )
    shown = cli("incident", "show", "7").out
    assert "lost        600 GPU-minutes, 12.00 EUR + 12.00 USD (card list)" in shown
    assert "240 GPU-minutes / 60 x 3 EUR per GPU-hour" in shown
    columns = cli("incident", "show", "7", "--format", "csv").out.splitlines()
    assert columns[0] == "state,start,end,gpu_ms,lost_gpu_ms,cost_of_loss_EUR,cost_of_loss_USD"
    report = cli("report", "incident", "7", "--site", "ber").out
    assert "| **Cost of loss** | **12.00 EUR**" in report and "--site ber" in report
    listed = cli("incidents", "--site", "ber")
    assert "12.00 EUR" in listed.out and "USD" not in listed.out
    for command in (("goodput",), ("incidents",), ("incident", "show", "7"), ("report", "incident", "7")):
        answer = cli(*command, "--site", "par")
        assert (answer.code, answer.err) == (2, "gpu-minutes: --site: there is no site 'par'; known are ber, nyc\n")
