"""Rules on the wall clock: exact instants worked out by hand, and laws over generated rules."""

from __future__ import annotations

from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warehouse.model.plan import Plan, said_by
from warehouse.model.state import State
from warehouse.model.time import (
    MS_PER_DAY,
    MS_PER_HOUR,
    at_wall,
    format_instant,
    parse_instant,
    parse_wall,
    to_datetime,
)
from warehouse.plans.rule import canonical, check_rule, compile_rule, occurrences


def wall(text: str, zone: str) -> int:
    moment = parse_wall(text)
    assert moment is not None
    return at_wall(moment, ZoneInfo(zone))


def plan(zone: str, start: str, end: str, rule: str) -> Plan:
    start_ms, end_ms = wall(start, zone), wall(end, zone)
    check_rule(canonical(rule), zone, start_ms, end_ms - start_ms)
    return Plan("w", start_ms, end_ms, "n1", ((0, 8),), start_ms, "x", zone, canonical(rule))


def spans(declared: Plan, start: str, end: str) -> list[tuple[str, str]]:
    starts = occurrences(declared, parse_instant(start), parse_instant(end))
    said = [said_by(declared, at_ms, declared.slots)[0] for at_ms in starts]
    return [(format_instant(e.start_ms), format_instant(e.end_ms or 0)) for e in said]


def test_pain_26_new_york_keeps_its_wall_clock_over_both_changes_of_2026() -> None:
    weekly = plan("America/New_York", "2026-01-06T02:00", "2026-01-06T04:00", "FREQ=WEEKLY;BYDAY=TU")
    # Clocks go to summer time on 8 March, EST is five hours behind UTC and EDT four.
    assert spans(weekly, "2026-03-01", "2026-03-18") == [
        ("2026-03-03T07:00:00Z", "2026-03-03T09:00:00Z"),
        ("2026-03-10T06:00:00Z", "2026-03-10T08:00:00Z"),
        ("2026-03-17T06:00:00Z", "2026-03-17T08:00:00Z"),
    ]
    # And back on 1 November.
    assert spans(weekly, "2026-10-25", "2026-11-11") == [
        ("2026-10-27T06:00:00Z", "2026-10-27T08:00:00Z"),
        ("2026-11-03T07:00:00Z", "2026-11-03T09:00:00Z"),
        ("2026-11-10T07:00:00Z", "2026-11-10T09:00:00Z"),
    ]


def test_pain_26_berlin_changes_on_other_days() -> None:
    daily = plan("Europe/Berlin", "2026-03-01T23:00", "2026-03-02T01:00", "FREQ=DAILY")
    assert spans(daily, "2026-03-27T12:00:00Z", "2026-03-30T12:00:00Z") == [
        ("2026-03-27T22:00:00Z", "2026-03-28T00:00:00Z"),
        ("2026-03-28T22:00:00Z", "2026-03-29T00:00:00Z"),
        ("2026-03-29T21:00:00Z", "2026-03-29T23:00:00Z"),
    ]


def test_pain_26_a_zone_without_summer_time_never_moves() -> None:
    monthly = plan("Asia/Kolkata", "2026-01-31T00:30", "2026-01-31T02:30", "FREQ=MONTHLY;BYMONTHDAY=-1")
    assert [start for start, _ in spans(monthly, "2026-02-01", "2026-05-01")] == [
        "2026-02-27T19:00:00Z",
        "2026-03-30T19:00:00Z",
        "2026-04-29T19:00:00Z",
    ]


def test_pain_26_a_start_that_the_clocks_skip_is_read_by_the_offset_before_the_gap() -> None:
    # RFC 5545: 02:30 on 8 March 2026 is 02:30 EST, which the clocks show as 03:30 EDT.
    sunday = plan("America/New_York", "2026-03-01T02:30", "2026-03-01T04:00", "FREQ=WEEKLY;BYDAY=SU;COUNT=3")
    assert spans(sunday, "2026-01-01", "2027-01-01") == [
        ("2026-03-01T07:30:00Z", "2026-03-01T09:00:00Z"),
        ("2026-03-08T07:30:00Z", "2026-03-08T09:00:00Z"),
        ("2026-03-15T06:30:00Z", "2026-03-15T08:00:00Z"),
    ]


def test_a_start_that_comes_twice_is_the_first_of_the_two() -> None:
    sunday = plan("America/New_York", "2026-10-25T01:30", "2026-10-25T02:30", "FREQ=WEEKLY")
    assert spans(sunday, "2026-10-26", "2026-11-02") == [("2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z")]


def test_a_first_occurrence_in_the_second_of_two_hours_stays_there() -> None:
    start_ms = parse_instant("2026-11-01T06:30:00Z")  # 01:30 for the second time
    declared = Plan("w", start_ms, start_ms + 60_000, "n1", (), start_ms, "x", "America/New_York", "FREQ=DAILY;COUNT=2")
    assert [start for start, _ in spans(declared, "2026-01-01", "2027-01-01")] == [
        "2026-11-01T06:30:00Z",
        "2026-11-02T06:30:00Z",
    ]


def test_two_times_that_the_clocks_skip_are_one_occurrence() -> None:
    twice = plan("America/New_York", "2026-03-07T02:30", "2026-03-07T03:00", "FREQ=DAILY;BYHOUR=2,3")
    assert [start for start, _ in spans(twice, "2026-03-08", "2026-03-09")] == ["2026-03-08T07:30:00Z"]


@pytest.mark.parametrize(
    ("until", "last"),
    [
        ("20260310T060000Z", "2026-03-10T06:00:00Z"),  # the last instant itself is in
        ("20260310T055959Z", "2026-03-03T07:00:00Z"),
        ("20260310T020000", "2026-03-10T06:00:00Z"),  # on the wall clock
        ("20260310", "2026-03-10T06:00:00Z"),  # a date counts whole, in the zone
        ("20260309", "2026-03-03T07:00:00Z"),
    ],
)
def test_until(until: str, last: str) -> None:
    rule = f"FREQ=WEEKLY;UNTIL={until}"
    weekly = plan("America/New_York", "2026-02-24T02:00", "2026-02-24T04:00", rule)
    assert spans(weekly, "2026-01-01", "2027-01-01")[-1][0] == last


ZONES = ["America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata", "UTC"]
RULES = [
    "FREQ=WEEKLY",
    "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TU,WE,TH,FR,SA,SU",
    "FREQ=DAILY;INTERVAL=3",
    "FREQ=HOURLY;INTERVAL=5",
    "FREQ=DAILY;COUNT=40",
    "FREQ=MONTHLY;UNTIL=20270301",
    "FREQ=YEARLY",
]
FIRST = parse_instant("2026-01-01")


@settings(max_examples=60, deadline=None)
@given(
    zone=st.sampled_from(ZONES),
    rule=st.sampled_from(RULES),
    minute=st.integers(0, 7 * 1440 - 1),
    cuts=st.lists(st.integers(0, 420), max_size=5),
)
def test_pieces_of_time_give_what_the_whole_gives(zone: str, rule: str, minute: int, cuts: list[int]) -> None:
    found = compile_rule(rule, zone, FIRST + minute * 60_000)
    edges = sorted({FIRST, FIRST + 420 * MS_PER_DAY, *(FIRST + cut * MS_PER_DAY for cut in cuts)})
    whole = found.starts(edges[0], edges[-1])
    assert [at for low, high in pairwise(edges) for at in found.starts(low, high)] == whole
    # Walked from the first occurrence, with no step skipped.
    walls = found.walls.between(
        to_datetime(0).replace(tzinfo=None), to_datetime(edges[-1] + MS_PER_DAY).replace(tzinfo=None)
    )
    walked = {at_wall(w, ZoneInfo(zone)) for w in walls} | {found.start_ms}
    until = edges[-1] if found.until_ms is None else min(edges[-1], found.until_ms + 1)
    assert whole == sorted(at for at in walked if found.start_ms <= at < until)


def test_an_old_rule_costs_what_a_young_one_costs() -> None:
    hourly = compile_rule("FREQ=HOURLY", "Europe/Berlin", FIRST)
    near = hourly._near(to_datetime(FIRST + 20 * 365 * MS_PER_DAY).replace(tzinfo=None))
    begun = at_wall(near._dtstart, ZoneInfo("Europe/Berlin"))  # type: ignore[attr-defined]
    assert 0 < FIRST + 20 * 365 * MS_PER_DAY - begun < 4 * MS_PER_HOUR


def test_work_that_ended_early_late_or_never_began() -> None:
    once = Plan("w", 1000, 5000, "n1", ((0, 8),), 0, "x")

    def ended(at_ms: int) -> list[tuple[State, int, int | None]]:
        declared = Plan("w", 1000, 5000, "n1", ((0, 8),), 0, "x", actual_end_ms=at_ms)
        return [(e.state, e.start_ms, e.end_ms) for e in said_by(declared, 1000, declared.slots)]

    assert [(e.state, e.start_ms, e.end_ms) for e in said_by(once, 1000, once.slots)] == [
        (State.MAINTENANCE, 1000, 5000)
    ]
    assert ended(3000) == [(State.MAINTENANCE, 1000, 3000)]
    assert ended(9000) == [(State.MAINTENANCE, 1000, 5000), (State.DOWN, 5000, 9000)]
    assert ended(1000) == [(State.MAINTENANCE, 1000, 1000)]
