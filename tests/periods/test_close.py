"""Closing a month: what is posted, what is refused, and what the database itself guards afterwards."""

from __future__ import annotations

from decimal import Decimal

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from tests.periods.farms import (
    BERLIN,
    act,
    assert_ties,
    books,
    close,
    down,
    farm,
    held,
    node,
    rate,
    say,
)
from warehouse import pipeline, views
from warehouse.errors import BadInput
from warehouse.model.state import State
from warehouse.model.time import parse_instant
from warehouse.store import revisions


def figures(engine: Engine, code: str, by: str = "class", site: str | None = None) -> dict[str, dict[str, object]]:
    """Gives the usage rows of a month by (site, card, key)."""
    with engine.connect() as connection:
        revision = revisions.latest(connection)
        assert revision is not None
        answer = views.period_books(connection, revision, code, site, None, by)
    found = {}
    for place in answer["sites"]:  # type: ignore[attr-defined]
        for book in place["books"]:
            for charge in book["charges"]:
                if charge["kind"] == "usage":
                    name = f"{place['site']} {book['card']} {book['currency']}"
                    found[f"{name} sum"] = charge
                    found |= {f"{name} {row['key']}": row for row in charge["rows"]}
    return found


@pytest.mark.parametrize(("code", "hours", "worth"), [("2026-03", 743, "7430.00"), ("2026-11", 721, "7210.00")])
def test_march_of_new_york_has_743_hours_and_november_721(database_url: str, code: str, hours: int, worth: str) -> None:
    engine = farm(
        database_url, [node("m1", since=f"{code}-01T00:00:00Z")], rate("2.50"), until=f"{code[:6]}{int(code[6]) + 1}-02"
    )
    close(engine, code)
    found = figures(engine, code)
    # 4 GPUs x 743 h = 2972 GPU-hours at 2.50 = 7430.00; 4 x 721 = 2884 at 2.50 = 7210.00. Nothing is known of them.
    assert found["york list USD sum"]["gpu_ms"] == 4 * hours * 3_600_000
    assert found["york list USD unknown"]["worth"] == worth
    assert found["york list USD sum"]["cost_of_loss"] == "0.00"
    odd_day = {"2026-03": ("2026-03-08", 23), "2026-11": ("2026-11-01", 25)}[code]
    assert figures(engine, code, by="day")[f"york list USD {odd_day[0]}"]["gpu_ms"] == 4 * odd_day[1] * 3_600_000
    assert_ties(engine)


def test_amounts_by_class_as_worked_out_by_hand(database_url: str) -> None:
    engine = farm(database_url, [node("m1", zone="UTC")], rate("3.00"), rate("0.90", card="power"))
    say(
        engine,
        held("job", "team-a", "2026-10-01T00:00:00Z", "2026-10-31T00:00:00Z", "m1"),
        # 4 GPUs x 5 h down = 20 GPU-h; 2 h of maintenance of one GPU; 4 GPUs starting for 0.5 h = 2 GPU-h;
        # 4 GPUs degraded by a quarter for 4 h = 16 GPU-h, 4 lost; all idle on the last day = 96 GPU-h.
        down("1", "2026-10-03T00:00:00Z", "2026-10-03T05:00:00Z", "m1"),
        down("2", "2026-10-04T00:00:00Z", "2026-10-04T02:00:00Z", "m1/0", None, state=State.MAINTENANCE),
        down("3", "2026-10-01T00:00:00Z", "2026-10-01T00:30:00Z", "m1", "operations/cold_start", state=State.STARTUP),
        down("4", "2026-10-10T00:00:00Z", "2026-10-10T04:00:00Z", "m1", "accelerator/gpu_hang",
             state=State.DEGRADED, lost_ppm=250_000),
        down("5", "2026-10-31T00:00:00Z", "2026-11-01T00:00:00Z", "m1", None, state=State.IDLE),
    )  # fmt: skip
    done = close(engine, "2026-10")
    assert done.sites == ("york",)
    found = figures(engine, "2026-10")
    got = {
        key.split()[-1]: (row["gpu_ms"] / 3_600_000, row["lost_gpu_ms"] / 3_600_000, row["worth"], row["cost_of_loss"])  # type: ignore[operator]
        for key, row in found.items()
        if "list" in key
    }
    assert got == {
        # 2976 installed: 24 unplanned (20 down + 4 degraded), 2 planned, 2 overhead, 96 unused, the rest good.
        "sum": (2976, 124, "8928.00", "84.00"),
        "good": (2852, 0, "8556.00", "0.00"),
        "overhead": (2, 2, "6.00", "6.00"),
        "unplanned": (24, 24, "72.00", "72.00"),
        "planned": (2, 2, "6.00", "6.00"),
        "unused": (96, 96, "288.00", "0.00"),
    }
    # The other card prices the same time: 28 GPU-h of loss at 0.90 = 25.20.
    assert found["york power USD sum"]["cost_of_loss"] == "25.20"
    assert found["york power USD sum"]["worth"] == "2678.40"
    with engine.connect() as connection:
        revision = revisions.latest(connection)
        assert revision is not None
        asked = views.ask(connection, revision, parse_instant("2026-10-01"), parse_instant("2026-11-01"), "list")
        assert views.goodput(connection, asked, "state")["cost_of_loss"] == "84.00"
    tenants = figures(engine, "2026-10", by="tenant")
    # What a job held is its tenant's, down or not: 30 days of 4 GPUs = 2880 GPU-h at 3.00.
    assert tenants["york list USD team-a"]["worth"] == "8640.00"
    assert tenants["york list USD none"]["worth"] == "288.00"
    assert_ties(engine)


def two_sites(url: str) -> Engine:
    return farm(
        url,
        [node("m1", currency="USD"), node("b1", "berlin", zone=BERLIN, currency="EUR")],
        rate("2.00", card="us"), rate("3.00", card="eu", currency="EUR"),
    )  # fmt: skip


def test_each_site_closes_its_own_month_in_its_own_currency(database_url: str) -> None:
    engine = two_sites(database_url)
    # The evening of 31 October in New York is November in Berlin already.
    say(
        engine,
        down("y", "2026-11-01T00:00:00Z", "2026-11-01T01:00:00Z", "m1"),
        down("b", "2026-11-01T00:00:00Z", "2026-11-01T01:00:00Z", "b1"),
    )
    done = close(engine, "2026-10")
    assert done.sites == ("berlin", "york")
    found = figures(engine, "2026-10")
    assert {key: row["worth"] for key, row in found.items() if key.endswith("sum")} == {
        "berlin eu EUR sum": "8940.00",  # 4 x 745 h x 3.00
        "york us USD sum": "5952.00",  # 4 x 744 h x 2.00
    }
    assert found["york us USD unplanned"]["cost_of_loss"] == "8.00"
    assert "berlin eu EUR unplanned" not in found
    assert_ties(engine)


def test_all_sites_close_or_none(database_url: str) -> None:
    engine = two_sites(database_url)
    close(engine, "2026-10", "berlin")
    with pytest.raises(BadInput, match=r"2026-10 of site berlin is closed already: .*, by tester, revision"):
        close(engine, "2026-10")
    assert books(engine, "2026-10", "us") == []
    assert close(engine, "2026-10", "york").sites == ("york",)
    assert close(engine, "2026-11").sites == ("berlin", "york")


REFUSED = {
    "2026-12": "2026-12 of site york is not over; it ends at 2027-01-01T05:00:00Z",
    "2026-06": "no GPU was installed in that month",
    "2026-13": "'2026-13' is no month such as 2026-10",
    "2026-11": "2026-11 of site york is provisional: booked up to 2026-11-30T00:00:00Z; "
    "run: gpu-minutes book --to 2026-12-01T05:00:00Z",
}


@pytest.mark.parametrize("code", REFUSED)
def test_what_cannot_be_closed(database_url: str, code: str) -> None:
    engine = farm(database_url, [node("m1")], rate("2.50"), until="2026-11-30")
    with pytest.raises(BadInput) as caught:
        close(engine, code)
    assert len(caught.value.lines) == 1 and REFUSED[code] in caught.value.lines[0]
    with engine.connect() as connection:
        assert connection.execute(text("select count(*) from period")).scalar_one() == 0
        assert connection.execute(text("select count(*) from posting")).scalar_one() == 0


def test_months_are_closed_in_order(database_url: str) -> None:
    engine = farm(database_url, [node("m1")], rate("2.50"))
    close(engine, "2026-08")
    for code, reason in {
        "2026-08": "2026-08 of site york is closed already: 2026-12-20T00:00:00Z, by tester, revision 4",
        "2026-06": "2026-06 of site york: 2026-07 is next before 2026-08, the first month that is closed",
        "2026-10": "2026-10 of site york: 2026-09 is next, since 2026-08 was closed last",
    }.items():
        with pytest.raises(BadInput, match=reason):
            close(engine, code)


def test_deferred_time_must_be_booked_first(database_url: str) -> None:
    engine = farm(database_url, [node("m1")], rate("2.50"))
    say(engine, down("1", "2026-10-05T00:00:00Z", "2026-10-06T00:00:00Z", "m1"), book=False)
    with pytest.raises(BadInput, match="2026-10 of site york is provisional: imported time waits to be booked"):
        close(engine, "2026-10")
    pipeline.book(engine, act("derive"))
    close(engine, "2026-10")


def test_nothing_closes_without_a_price_or_a_known_site(database_url: str) -> None:
    engine = farm(database_url, [node("m1")])
    with pytest.raises(BadInput, match=r"2026-10 of site york has no price at all \(rate cards: none\)"):
        close(engine, "2026-10")
    with pytest.raises(BadInput, match="there is no site 'paris'; known are york"):
        close(engine, "2026-10", "paris")


def test_a_month_without_a_fleet_closes_between_others(database_url: str) -> None:
    left = node("m1", retired_ms=parse_instant("2026-09-10T00:00:00Z"))
    engine = farm(database_url, [left, node("m1", since="2026-11-05T00:00:00Z")], rate("2.50"))
    for code in ("2026-09", "2026-10", "2026-11"):
        close(engine, code)
    assert books(engine, "2026-10") == []
    assert_ties(engine)


def test_unpriced_time_is_a_row_without_a_rate(database_url: str) -> None:
    engine = farm(database_url, [node("m1"), node("m2", model="B200")], rate("2.50"))
    close(engine, "2026-10")
    found = figures(engine, "2026-10")
    assert found["york list USD sum"]["unpriced_gpu_ms"] == 4 * 744 * 3_600_000
    assert found["york list USD sum"]["worth"] == "7440.00"
    assert {row[4] for row in books(engine, "2026-10")} == {None, "2.5"}


def test_the_database_guards_what_was_closed(any_database_url: str) -> None:
    engine = farm(any_database_url, [node("m1")], rate("2.50"))
    close(engine, "2026-10")
    row = (
        "insert into posting (site_id, billing, charge, charge_day, kind, card, currency, model, state, gpu_ms, "
        "lost_gpu_ms, revs) select site_id, '{}', '2026-09', '2026-09-30', 'correction', card, currency, model, state, "
        "1, 0, int8range(99, null) from posting limit 1"
    )
    for statement, reason in {
        row.format("2026-10"): "period 2026-10 is closed: its money never changes",
        # A month before the closed one may still be closed itself, but takes no correction.
        row.format("2026-09").replace("'2026-09'", "'2026-08'"): "period 2026-08 is closed: its money never changes",
        "update posting set gpu_ms = 0": "posting is history: UPDATE is refused",
        "delete from posting": "posting is history: DELETE is refused",
        "truncate posting cascade": "posting is history: TRUNCATE is refused",
        "update period set reason = 'x'": "period is history: UPDATE is refused",
        "delete from period": "period is history: DELETE is refused",
        "truncate period": "period is history: TRUNCATE is refused",
    }.items():
        with engine.connect() as connection, pytest.raises(DBAPIError, match=reason):
            connection.execute(text(statement))
    with engine.begin() as connection:
        connection.execute(text(row.format("2026-11")))
    engine.dispose()


def test_the_proof_names_what_breaks(database_url: str) -> None:
    engine = farm(database_url, [node("m1")], rate("2.50"))
    close(engine, "2026-10")
    assert_ties(engine)
    with engine.begin() as connection:
        connection.execute(text("set session_replication_role = 'replica'"))
        connection.execute(text("update posting set gpu_ms = gpu_ms - 1 where charge_day = '2026-10-17'"))
        revision = revisions.latest(connection)
        assert revision is not None
        assert views.postings.ties(connection, revision) == (
            "2026-10 of site york, card list, 2026-10-17, H100, unknown at 2.5 USD: "
            "postings and ledger differ by -1 GPU-ms, 0 of them lost"
        )


def test_exact_where_a_float_would_not_be(database_url: str) -> None:
    # 4 GPUs x 744 h at a price of eight decimals: 2976 x 2.49000001 = 7410.24002976, shown as 7410.24.
    engine = farm(database_url, [node("m1")], rate("2.49000001"))
    close(engine, "2026-10")
    with engine.connect() as connection:
        exact = connection.execute(text("select sum(gpu_ms * per_gpu_hour) / 3600000 from posting")).scalar_one()
    assert exact == Decimal("7410.24002976")
    assert figures(engine, "2026-10")["york list USD sum"]["worth"] == "7410.24"
