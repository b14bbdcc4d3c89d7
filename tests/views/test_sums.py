"""Laws of every figure, on random small ledgers: parts sum to wholes in every grouping, site and currency."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from tests.conftest import _fresh_database
from tests.views.ledgers import START, both_currencies, goodput, incident, note, share, tile, two_sites, write
from warehouse import views
from warehouse.ledger import price
from warehouse.model.entry import Entry
from warehouse.model.evidence import Evidence
from warehouse.model.state import PARTIAL, State
from warehouse.model.time import MS_PER_DAY, MS_PER_HOUR
from warehouse.views import exact

SLOTS = (0, 1, 8, 9)
NUMBERS = (11, 12)
_STATES = [s for s in State if s is not State.STRANDED]


@pytest.fixture(scope="module")
def ledger(embedded_server: str) -> Iterator[tuple[Engine, list[int], list[int]]]:
    """Two sites with prices, two incidents and three shares; each example writes a tiling of its own."""
    engine = two_sites(_fresh_database(embedded_server))
    both_currencies(engine)
    jobs = note(engine, *(share(f"j{part}", part, ((0, 10))) for part in (300_000, 333_333, 200_001)))
    said = [Evidence("ops", str(n), START, START + MS_PER_DAY, "x", ((0, 10),), State.DOWN) for n in NUMBERS]
    ids = note(engine, *said)
    for number, evidence_id in zip(NUMBERS, ids, strict=True):
        incident(engine, number, "power/psu", [evidence_id])
    yield engine, jobs, ids
    engine.dispose()


@st.composite
def tilings(draw: st.DrawFn) -> list[list[tuple[Any, ...]]]:
    """For each slot: (from, to, state, lost_ppm, linked, number of sharers), in ms of a day and a half."""
    end = 3 * MS_PER_DAY // 2
    lanes = []
    for _ in SLOTS:
        cuts = sorted({0, end, *draw(st.lists(st.integers(1, end - 1), max_size=3))})
        lane = []
        for start, stop in pairwise(cuts):
            state = draw(st.sampled_from(_STATES))
            lost = draw(st.integers(1, 1_000_000)) if state in PARTIAL else None
            lane.append((start, stop, state, lost, draw(st.booleans()), draw(st.integers(0, 3))))
        lanes.append(lane)
    return lanes


def _entries(lanes: list[list[tuple[Any, ...]]], jobs: list[int], ids: list[int]) -> list[Entry]:
    parts = {1: 300_000, 2: 633_333, 3: 833_334}
    found = []
    for slot, lane in zip(SLOTS, lanes, strict=True):
        for start, stop, state, lost, linked, sharers in lane:
            said: dict[str, Any] = {} if lost is None else {"lost_ppm": lost}
            if state is not State.UNKNOWN:
                said["evidence_id"] = ids[0]
                if linked:
                    said |= {"incident_id": NUMBERS[0], "cause": "power/psu"}
                if sharers:
                    said |= {"attempt_id": jobs[0], "held_ppm": parts[sharers], "sharers": tuple(jobs[:sharers])}
            found.append(tile((slot, slot + 1), start / MS_PER_HOUR, stop / MS_PER_HOUR, state, **said))
    return found


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tilings(), st.integers(0, MS_PER_DAY), st.integers(1, MS_PER_DAY))
def test_parts_sum_to_wholes(
    ledger: tuple[Engine, list[int], list[int]], lanes: list[list[tuple[Any, ...]]], start: int, length: int
) -> None:
    engine, jobs, ids = ledger
    write(engine, _entries(lanes, jobs, ids))
    window = {"start": START + start, "end": START + start + length}
    whole = goodput(engine, **window)
    assert whole["installed_gpu_ms"] == len(SLOTS) * length
    for by in views.GROUPINGS:
        answer = goodput(engine, by, **window)
        assert sum(row["gpu_ms"] for row in answer["rows"]) == answer["installed_gpu_ms"], by
        assert sum(answer["classes"].values()) == answer["installed_gpu_ms"], by
        assert {**answer, "rows": None} == {**whole, "rows": None}, by
        if by not in ("state", "class"):
            assert _sums(answer["rows"]) == {name: Decimal(text) for name, text in whole["costs"].items()}, by
    sites = {name: goodput(engine, "cause", **window, site=name) for name in ("nyc", "ber")}
    assert sum(answer["installed_gpu_ms"] for answer in sites.values()) == whole["installed_gpu_ms"]
    assert {"USD": sites["nyc"]["cost_of_loss"], "EUR": sites["ber"]["cost_of_loss"]} == whole["costs"]


def test_a_split_at_any_instant_sums_to_the_whole(ledger: tuple[Engine, list[int], list[int]]) -> None:
    engine, jobs, ids = ledger
    end = 3 * MS_PER_DAY // 2
    lane = [(0, 7_000_001, State.DOWN, None, True, 2), (7_000_001, end, State.PRODUCTIVE, None, False, 0)]
    write(engine, _entries([lane] * len(SLOTS), jobs, ids))
    parts = [goodput(engine, start=START + a, end=START + b) for a, b in ((0, 6_999_999), (6_999_999, end))]
    down = [row["gpu_ms"] for part in parts for row in part["rows"] if row["key"] == "down"]
    assert sum(down) == len(SLOTS) * 7_000_001


def _sums(rows: list[dict[str, Any]]) -> dict[str, Decimal]:
    found = {"EUR": Decimal(0), "USD": Decimal(0)}
    for row in rows:
        for name, amount in row["costs"].items():
            found[name] += Decimal(amount)
    return found


@given(st.lists(st.integers(0, 10**15), max_size=12))
def test_integers_round_as_fractions_do(exact_parts: list[int]) -> None:
    divisor = 1_000_000
    as_fractions = [Fraction(part, divisor) for part in exact_parts]
    assert exact.parts(exact_parts, divisor) == price.largest_remainder(as_fractions, round(sum(as_fractions)))
    assert exact.rounded(sum(exact_parts), divisor) == round(sum(as_fractions))


@given(
    st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**9)), max_size=6),
    st.sampled_from(["USD", "JPY", "KWD"]),
)
def test_money_is_what_the_heart_says(items: list[tuple[int, int]], currency: str) -> None:
    rates = [Decimal(units).scaleb(-exact.RATE_DIGITS) for _, units in items]
    heart = [price.cost(lost, rate) / 1_000_000 for (lost, _), rate in zip(items, rates, strict=True)]
    ours = [lost * exact.rate_units(rate) for (lost, _), rate in zip(items, rates, strict=True)]
    assert exact.amounts(ours, currency) == price.displayed_parts(heart, currency)
