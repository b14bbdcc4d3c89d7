"""Figures: the steps sum to installed, stand in one order, and are told in words."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard import charts, palette
from warehouse.model.state import GpuTimeClass, State, class_of
from warehouse.views import Bucket, CauseLoss, Part

_STEPS = [(class_of(state, linked), state) for state in State for linked in (False, True)]


@st.composite
def parts(draw: st.DrawFn) -> list[Part]:
    keys = draw(st.lists(st.sampled_from(_STEPS), unique=True, min_size=1))
    sizes = st.integers(1, 10**15)
    cost = st.none() | st.decimals(0, 10**9, places=2)
    return [Part(name, state, draw(sizes), draw(cost)) for name, state in keys]


@settings(max_examples=25, deadline=None)
@given(parts())
def test_the_bridge_walks_from_installed_to_good_without_a_gap(found: list[Part]) -> None:
    bars = charts.bridge(found, "USD", "light").figure.data[1]
    sizes = dict(zip(bars.y, bars.customdata, strict=True))
    installed, *steps = [sizes[place] for place in bars.y]
    assert installed == 100
    assert sum(steps) == pytest.approx(100)
    good = [part.gpu_ms for part in found if part.gpu_class is GpuTimeClass.GOOD]
    if good:
        assert bars.base[-1] == pytest.approx(0, abs=1e-9)
    # Each step ends where the one before began, unless a hairline had to be drawn wider than it is.
    right = 100.0
    for base, width, size in list(zip(bars.base, bars.x, bars.customdata, strict=True))[1:]:
        if width == size and size:
            assert base + width == pytest.approx(right, abs=1e-6)
        right -= size


@settings(max_examples=25, deadline=None)
@given(parts())
def test_the_steps_stand_in_the_order_of_the_palette(found: list[Part]) -> None:
    drawing = charts.bridge(found, "USD", "dark")
    bars = drawing.figure.data[1]
    colours = list(bars.marker.color)[1 : len(found) + 1]
    wanted = sorted(found, key=lambda part: palette.order().index(part.state))
    assert colours == [palette.colour(part.state, "dark") for part in wanted]
    assert drawing.rows[0][0] == "Installed"
    assert all(row[0] in drawing.alt and row[1] in drawing.alt for row in drawing.rows)


def test_small_steps_stay_visible_and_nothing_has_no_bar() -> None:
    found = [
        Part(GpuTimeClass.UNPLANNED, State.DOWN, 1, Decimal("0.00")),
        Part(GpuTimeClass.UNKNOWN, State.UNKNOWN, 10**9, None),
    ]
    bars = charts.bridge(found, "USD", "light").figure.data[1]
    down, unknown, good = bars.x[1:]
    assert 0 < down < 0.5
    assert unknown == pytest.approx(100)
    assert good == 0
    assert bars.marker.pattern.shape[2] == "/", "what nobody observed is hatched"


def test_every_row_has_its_words() -> None:
    found = [Part(GpuTimeClass.UNPLANNED, State.HUNG, 60_000, Decimal("1.20"))]
    texts = [annotation.text for annotation in charts.bridge(found, "USD", "light").figure.layout.annotations]
    assert texts[2:4] == ["Hung · unplanned", "1 GPU-min · 100 % · $1.20"]


def _loss(at: int, cost: str | None) -> CauseLoss:
    return CauseLoss(f"power/c{at}", f"Cause {at}", at * 60_000, None if cost is None else Decimal(cost))


def test_the_ranking_keeps_the_loss_without_a_cause_and_sums_the_small_ones() -> None:
    found = [_loss(at, f"{at}.00") for at in range(20, 0, -1)]
    found.append(CauseLoss(None, "Overhead without a cause", 0, Decimal(0)))
    drawing = charts.causes(found, "USD", "light")
    texts = [annotation.text for annotation in drawing.figure.layout.annotations]
    assert texts[0::2][-2:] == ["14 other causes", "Overhead without a cause"]
    assert texts[1::2][-2:] == ["$105 · 50.0 %", "$0 · 0 %"]
    assert len(drawing.rows) == len(found)


def test_the_ranking_counts_minutes_where_a_price_is_missing() -> None:
    drawing = charts.causes([_loss(3, None), _loss(2, "5.00")], "USD", "light")
    assert drawing.alt.startswith("GPU-minutes lost by cause: Cause 3 3 GPU-min")


def test_the_calendar_stacks_loss_alone() -> None:
    classes = dict.fromkeys(GpuTimeClass, 0) | {
        GpuTimeClass.UNPLANNED: 5,
        GpuTimeClass.UNKNOWN: 90,
        GpuTimeClass.GOOD: 5,
    }
    drawing = charts.calendar([Bucket("2026-11-01", 100, classes)], "day", "light")
    assert [(trace.name, list(trace.y)) for trace in drawing.figure.data] == [("Unplanned", [5.0])]
    assert "2026-11-01 5.00 %" in drawing.alt
    assert dict(zip(drawing.head, drawing.rows[0], strict=True))["Unknown"] == "90.0 %"


def test_the_timeline_shows_each_phase_in_words_and_time() -> None:
    phases = [
        {"state": "lost_work", "start": "2026-11-12T11:40:00Z", "end": "2026-11-12T14:00:00Z", "lost_gpu_ms": 60_000},
        {"state": "down", "start": "2026-11-12T14:00:00Z", "end": "2026-11-12T14:00:01Z", "lost_gpu_ms": 1_000},
    ]
    drawing = charts.timeline(phases, "light")
    first, second = drawing.figure.data
    assert first.x[0] == 140 * 60_000
    assert second.x[0] > 1_000, "a phase of a second can still be seen"
    assert "Lost work 12 Nov 2026 11:40Z to 12 Nov 2026 14:00Z" in drawing.alt
