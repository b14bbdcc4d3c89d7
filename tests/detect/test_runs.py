"""Steps to runs and edges, holes, and what happens to evidence that is already told: on plain integers."""

from __future__ import annotations

from tests.detect.fleet import Fleet
from warehouse.detect.holes import find_holes, tell_holes
from warehouse.detect.runs import Chain, Grid, Hole, Run, chains, confirm, date_run
from warehouse.detect.stitch import abandon, evidence_key, extend, follow
from warehouse.model.evidence import Evidence
from warehouse.model.state import State
from warehouse.model.time import Window

STEP = 15
GRID = Grid(0, 300, STEP)
FRESH = 45


def told(start_ms: int, end_ms: int | None, scope: str = "a", key: str = "x") -> Evidence:
    """Gives evidence as a detector made it."""
    name = evidence_key(key, 1, scope, start_ms)
    return Evidence("detector", name, start_ms, end_ms, scope, ((0, 8),), State.DOWN)


def scraped(bad_from: int, bad_to: int, phase: int = 3) -> tuple[tuple[int, float], ...]:
    """Gives samples every step, 0 in [bad_from, bad_to)."""
    return tuple((at, 0.0 if bad_from <= at < bad_to else 1.0) for at in range(phase, 300, STEP))


def test_steps_chain_only_without_a_pause_and_outside_holes() -> None:
    assert chains([30, 15, 45, 75], STEP) == [Chain(15, 45), Chain(75, 75)]
    assert chains(range(0, 150, STEP), STEP, [Hole(33, 100)]) == [Chain(0, 30), Chain(105, 135)]
    assert chains(range(0, 60, STEP), STEP, [Hole(20, None)]) == [Chain(0, 15)]


def test_edges_move_to_the_first_bad_and_the_first_good_sample() -> None:
    assert date_run(Chain(60, 105), GRID, 299, [scraped(48, 108)], (), FRESH) == Run(48, 108, 108)
    two = [scraped(48, 108), scraped(50, 115, phase=7)]
    assert date_run(Chain(60, 105), GRID, 299, two, (), FRESH) == Run(52, 108, 108)


def test_without_witnesses_edges_stay_on_the_grid() -> None:
    assert date_run(Chain(60, 105), GRID, 299) == Run(60, 120, 120)
    assert date_run(Chain(0, 285), GRID, 280) == Run(0, None, 280, cut_off=True)


def test_a_good_sample_after_the_last_step_closes_the_run_inside_the_window() -> None:
    assert date_run(Chain(60, 285), GRID, 299, [scraped(48, 288)], (), FRESH) == Run(48, 288, 288)


def test_a_run_touches_a_hole_and_does_not_enter_it() -> None:
    holes = [Hole(63, 138)]
    points = tuple(point for point in scraped(33, 180) if not 63 < point[0] < 138)
    first, second = (
        date_run(chain, GRID, 299, [points], holes, FRESH) for chain in chains(range(45, 195, STEP), STEP, holes)
    )
    assert (first.start_ms, first.end_ms) == (33, 63)
    assert (second.start_ms, second.end_ms) == (138, 183)


def test_a_range_function_confirms_and_does_not_date() -> None:
    assert confirm([Chain(60, 240)], [180, 195, 225]) == [Chain(60, 240)]
    assert confirm([Chain(60, 240), Chain(270, 285)], [255, 300]) == [Chain(60, 240, False), Chain(270, 285, False)]


def test_one_evidence_follows_one_run() -> None:
    window = Window(100, 200)
    followed = follow([Run(90, 120, 120), Run(150, None, 195)], [told(50, None)], window, 30)
    assert followed.continued == [told(50, 120)]
    assert followed.fresh == [Run(150, None, 195)]
    assert followed.lost == []


def test_short_and_past_runs_are_dropped_and_young_open_ones_wait() -> None:
    window = Window(100, 200)
    runs = [Run(10, 90, 90), Run(110, 125, 125), Run(165, None, 190)]
    assert follow(runs, [], window, 30).fresh == []


def test_an_unconfirmed_run_goes_on_with_what_is_told_and_begins_nothing() -> None:
    window = Window(100, 200)
    run = Run(50, 160, 160, confirmed=False)
    assert follow([run], [], window, 30).fresh == []
    assert follow([run], [told(50, None)], window, 30).continued == [told(50, 160)]


def test_an_end_that_a_later_window_saw_stands() -> None:
    window = Window(100, 200)
    assert extend(told(50, 250), None, window) == told(50, 250)
    assert extend(told(50, 250), 180, window) == told(50, 250)
    assert extend(told(50, 150), 160, window) == told(50, 160)


def test_evidence_that_late_data_disproves_keeps_no_length() -> None:
    window = Window(100, 200)
    assert abandon(told(80, None), 60, window) == told(80, 80)
    assert abandon(told(20, None), 60, window) == told(20, 100)
    assert abandon(told(20, 150), 60, window) == told(20, 150)


def test_holes_lie_between_samples_at_the_end_and_before_the_first_where_told() -> None:
    times = {"a": [0, 15, 30, 100, 115], "b": [60, 75, 90, 105, 120]}
    assert find_holes(times, {}, 130, 45) == {"a": [Hole(30, 100)]}
    assert find_holes(times, {}, 161, 45)["a"][-1] == Hole(115, None)
    assert find_holes(times, {"b": 10, "c": 20}, 130, 45) == {
        "a": [Hole(30, 100)],
        "b": [Hole(10, 60)],
        "c": [Hole(20, None)],
    }


def test_holes_outside_the_fleet_are_found_and_not_booked() -> None:
    evidence, findings = tell_holes({"z": [Hole(10, 60)]}, [], Window(0, 100), Fleet(("a",)))
    assert evidence == []
    assert [(found.where, found.message) for found in findings] == [("z", "not a node of the fleet")]


def test_a_key_with_a_thousand_nodes_stays_short() -> None:
    scope = "+".join(f"node-{number}" for number in range(1_000))
    key = evidence_key("no_samples", 1, scope, 0)
    assert len(key) < 100 and key.startswith("det:no_samples@1:1000-places-")


def test_a_told_hole_that_late_samples_filled_keeps_no_length() -> None:
    hole = told(50, None, key="no_samples")
    assert tell_holes({}, [hole], Window(100, 200), Fleet(("a",))) == ([told(50, 50, key="no_samples")], [])
