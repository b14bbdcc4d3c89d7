"""What is learned about a closed month: correction rows in the open month, exactly, and nothing else moves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import Engine, text

from tests.periods.farms import (
    BERLIN,
    act,
    assert_ties,
    books,
    close,
    corrections,
    down,
    farm,
    held,
    node,
    rate,
    reprice,
    say,
)
from warehouse import pipeline
from warehouse.errors import BadInput
from warehouse.model.time import parse_instant

DAY = 4 * 24 * 60  # GPU-minutes of four GPUs in a day


@pytest.fixture
def closed(database_url: str) -> Engine:
    """Four GPUs in UTC; July to September are closed."""
    engine = farm(database_url, [node("m1", zone="UTC")], rate("2.00"))
    say(engine, down("1", "2026-08-10T00:00:00Z", "2026-08-10T06:00:00Z", "m1"))
    for code in ("2026-07", "2026-08", "2026-09"):
        close(engine, code)
    return engine


def test_late_evidence_posts_a_reversal_and_its_replacement(closed: Engine) -> None:
    august = books(closed, "2026-08")
    done = say(closed, down("2", "2026-08-20T10:00:00Z", "2026-08-20T12:00:00Z", "m1", "power/psu"))
    assert done.corrections == 3
    assert books(closed, "2026-10") == [
        ("2026-08-20", "correction", "down", "power/psu", "2", 480.0, 480.0),
        ("2026-08-20", "reversal", "unknown", None, "2", -DAY, 0.0),
        ("2026-08-20", "correction", "unknown", None, "2", DAY - 480.0, 0.0),
    ]
    assert books(closed, "2026-08") == august
    assert_ties(closed)


def test_the_same_words_twice_and_deriving_again_post_nothing(closed: Engine) -> None:
    late = down("2", "2026-08-20T10:00:00Z", "2026-08-20T12:00:00Z", "m1", "power/psu")
    say(closed, late)
    before = books(closed, "2026-10")
    assert not say(closed, late).changed
    again = pipeline.book(closed, act("derive"))
    assert (again.changed, again.corrections) == (False, 0)
    assert books(closed, "2026-10") == before


def test_a_second_correction_takes_back_the_first(closed: Engine) -> None:
    late = down("2", "2026-08-20T10:00:00Z", "2026-08-20T12:00:00Z", "m1", "power/psu")
    say(closed, late)
    say(closed, replace(late, end_ms=parse_instant("2026-08-20T11:00:00Z")), revise=True)
    assert books(closed, "2026-10")[3:] == [
        ("2026-08-20", "reversal", "down", "power/psu", "2", -480.0, -480.0),
        ("2026-08-20", "correction", "down", "power/psu", "2", 240.0, 240.0),
        ("2026-08-20", "reversal", "unknown", None, "2", -(DAY - 480.0), 0.0),
        ("2026-08-20", "correction", "unknown", None, "2", DAY - 240.0, 0.0),
    ]
    assert_ties(closed)


def test_a_correction_stands_in_the_month_that_was_open_then(closed: Engine) -> None:
    close(closed, "2026-10")
    say(closed, down("2", "2026-08-20T10:00:00Z", "2026-08-20T12:00:00Z", "m1", "power/psu"))
    assert corrections(closed, "2026-10") == []
    assert len(corrections(closed, "2026-11")) == 3
    october = books(closed, "2026-11")
    close(closed, "2026-11")
    assert books(closed, "2026-11")[:3] == october
    assert len(books(closed, "2026-11")) == 3 + 30
    assert_ties(closed)


def test_another_cause_moves_money_and_makes_none(closed: Engine) -> None:
    first = down("1", "2026-08-10T00:00:00Z", "2026-08-10T06:00:00Z", "m1")
    say(closed, replace(first, cause="power/psu"), revise=True)
    rows = [row[:4] + row[5:] for row in corrections(closed, "2026-10")]
    assert rows == [
        ("2026-08-10", "reversal", "down", "host/dram", -1440.0, -1440.0),
        ("2026-08-10", "correction", "down", "power/psu", 1440.0, 1440.0),
    ]
    with closed.connect() as connection:
        sums = connection.execute(
            text(
                "select sum(gpu_ms), sum(lost_gpu_ms), sum(gpu_ms * per_gpu_hour) from posting "
                "where kind = 'correction'"
            )
        ).one()
    assert tuple(sums) == (0, 0, 0)
    assert_ties(closed)


def test_another_tenant_moves_money(closed: Engine) -> None:
    job = held("j", "team-a", "2026-09-05T00:00:00Z", "2026-09-05T12:00:00Z", "m1")
    say(closed, job)
    say(closed, replace(job, tenant="team-b"), revise=True)
    with closed.connect() as connection:
        rows = connection.execute(
            text(
                "select tenant, sum(gpu_ms) / 60000 as minutes from posting where charge = '2026-09' "
                "group by 1 order by 1"
            )
        ).all()
    assert [tuple(row) for row in rows] == [("team-a", 0), ("team-b", 2880), (None, 30 * DAY - 2880)]
    assert_ties(closed)


def test_deferred_words_post_when_they_are_booked(closed: Engine) -> None:
    say(closed, down("2", "2026-08-20T10:00:00Z", "2026-08-20T12:00:00Z", "m1", "power/psu"), book=False)
    assert books(closed, "2026-10") == []
    assert_ties(closed)
    assert pipeline.book(closed, act("derive")).corrections == 3
    assert_ties(closed)


def test_an_outage_over_two_closed_months_and_the_open_one(closed: Engine) -> None:
    # 31 August 18:00 to 1 September 06:00, and then from 30 September 23:00 for two hours: one of them is open time.
    say(
        closed,
        down("2", "2026-08-31T18:00:00Z", "2026-09-01T06:00:00Z", "m1", "power/psu"),
        down("3", "2026-09-30T23:00:00Z", "2026-10-01T01:00:00Z", "m1", "power/psu"),
    )
    lost = [(row[0], row[6]) for row in corrections(closed, "2026-10") if row[2] == "down"]
    assert lost == [("2026-08-31", 6 * 240.0), ("2026-09-01", 6 * 240.0), ("2026-09-30", 240.0)]
    assert_ties(closed)
    close(closed, "2026-10")
    october = [(row[0], row[6]) for row in books(closed, "2026-10") if row[1] == "usage" and row[2] == "down"]
    assert october == [("2026-10-01", 240.0)]
    assert_ties(closed)


def test_late_fleet_is_late_usage(closed: Engine) -> None:
    late = node("m2", zone="UTC", since="2026-09-29T00:00:00Z", retired_ms=parse_instant("2026-09-30T12:00:00Z"))
    pipeline.load_fleet(closed, [late], act("fleet"))
    assert corrections(closed, "2026-10") == [
        ("2026-09-29", "reversal", "unknown", None, "2", -DAY, 0.0),
        ("2026-09-29", "correction", "unknown", None, "2", 2 * DAY, 0.0),
        ("2026-09-30", "reversal", "unknown", None, "2", -DAY, 0.0),
        ("2026-09-30", "correction", "unknown", None, "2", 1.5 * DAY, 0.0),
    ]
    assert_ties(closed)


def test_another_model_in_the_slot_reprices_though_no_entry_changed(database_url: str) -> None:
    engine = farm(database_url, [node("m1", zone="UTC")], rate("2.00"), rate("5.00", model="B200"))
    close(engine, "2026-09")
    gone = node("m1", zone="UTC", retired_ms=parse_instant("2026-09-30T00:00:00Z"))
    pipeline.load_fleet(engine, [gone, node("m1", zone="UTC", model="B200", since="2026-09-30")], act("fleet"))
    assert [row[4:6] for row in corrections(engine, "2026-10")] == [("5", DAY), ("2", -DAY)]
    assert_ties(engine)


def test_days_are_those_of_the_site(database_url: str) -> None:
    engine = farm(database_url, [node("b1", "berlin", zone=BERLIN)], rate("2.00"))
    close(engine, "2026-10")
    # 22:30 to 00:30 UTC on 24 October is 00:30 to 02:30 on the 25th in Berlin, a day of 25 hours.
    say(engine, down("1", "2026-10-24T22:30:00Z", "2026-10-25T00:30:00Z", "b1"))
    assert corrections(engine, "2026-11") == [
        ("2026-10-25", "correction", "down", "host/dram", "2", 480.0, 480.0),
        ("2026-10-25", "reversal", "unknown", None, "2", -6000.0, 0.0),
        ("2026-10-25", "correction", "unknown", None, "2", 5520.0, 0.0),
    ]
    assert_ties(engine)


def test_two_sites_bill_into_their_own_open_months(database_url: str) -> None:
    engine = farm(database_url, [node("m1", zone="UTC"), node("b1", "berlin", zone=BERLIN)], rate("2.00"))
    close(engine, "2026-09")
    close(engine, "2026-10", "berlin")
    say(
        engine,
        down("1", "2026-09-10T00:00:00Z", "2026-09-10T01:00:00Z", "m1"),
        down("2", "2026-09-10T00:00:00Z", "2026-09-10T01:00:00Z", "b1"),
    )
    assert len(corrections(engine, "2026-10")) == 3  # york's
    assert len(corrections(engine, "2026-11")) == 3  # berlin's
    assert_ties(engine)


def test_unpriced_time_that_is_priced_later(database_url: str) -> None:
    engine = farm(database_url, [node("m1", zone="UTC"), node("m2", model="B200", zone="UTC")], rate("2.00"))
    close(engine, "2026-09")
    # The price holds for two days of the closed month, and from then on.
    done = reprice(engine, rate("5.00", model="B200", start="2026-09-29"))
    assert done.corrections == 4
    assert corrections(engine, "2026-10") == [
        ("2026-09-29", "correction", "unknown", None, "5", DAY, 0.0),
        ("2026-09-29", "reversal", "unknown", None, None, -DAY, 0.0),
        ("2026-09-30", "correction", "unknown", None, "5", DAY, 0.0),
        ("2026-09-30", "reversal", "unknown", None, None, -DAY, 0.0),
    ]
    assert_ties(engine)


def test_a_card_that_comes_later_posts_the_whole_month(database_url: str) -> None:
    engine = farm(database_url, [node("m1", zone="UTC")], rate("2.00"))
    close(engine, "2026-09")
    reprice(engine, rate("1.00", card="own", start="2026-09-30", end="2026-10-01"))
    found = corrections(engine, "2026-10", "own")
    assert [row[4] for row in found] == [None] * 29 + ["1"]
    assert sum(float(str(row[5])) for row in found) == 30 * DAY
    assert corrections(engine, "2026-10") == []
    assert_ties(engine)


class TestRatesLoad:
    """Rates that would change a closed month's money are refused, whatever way they do it."""

    @pytest.mark.parametrize(
        ("spec", "said"),
        [
            (rate("3.00"), "card list, model H100: would change the price of closed months"),
            (rate("2.00", end="2026-08-15"), "(2026-08 of site york, 2026-09 of site york)"),
            (rate("2.00", end="2026-07-01"), "(2026-07 of site york, 2026-08 of site york, 2026-09 of site york)"),
            (rate("5.00", card="own", start="2026-09-30"), "card own, model H100: would change the price of closed"),
        ],
        ids=["another price", "an end inside", "an end before", "a new card"],
    )
    def test_refused(self, closed: Engine, spec: object, said: str) -> None:
        with pytest.raises(BadInput) as caught:
            pipeline.load_rates(closed, [spec], act("rates"))  # type: ignore[list-item]
        assert len(caught.value.lines) == 1
        assert said in caught.value.lines[0]
        assert "gpu-minutes rates reprice FILE --reason TEXT posts corrections" in caught.value.lines[0]

    def test_what_leaves_closed_months_alone_is_loaded(self, closed: Engine) -> None:
        prices = [rate("2.00", end="2026-12-10"), rate("3.00", start="2026-12-10"), rate("9.00", model="other")]
        done = pipeline.load_rates(closed, prices, act("rates"))
        assert (done.rates_added, done.corrections) == (3, 0)
        # Another row says the same price now: no money moved, so that a later correction touches its own keys alone.
        say(closed, down("2", "2026-08-20T10:00:00Z", "2026-08-20T12:00:00Z", "m1", "power/psu"))
        assert len(corrections(closed, "2026-10")) == 3
        assert_ties(closed)

    def test_the_same_price_in_two_rows_moves_nothing(self, closed: Engine) -> None:
        prices = [rate("2.00", end="2026-08-15"), rate("2.00", start="2026-08-15")]
        assert pipeline.load_rates(closed, prices, act("rates")).corrections == 0
        assert pipeline.book(closed, act("derive")).corrections == 0
        assert_ties(closed)
