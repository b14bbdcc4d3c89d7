"""Steps to runs and edges, holes, and what happens to evidence that is already told: on plain integers."""

from __future__ import annotations

from dataclasses import replace

from tests.detect.fleet import Fleet
from warehouse.detect.holes import find_holes, tell_holes
from warehouse.detect.runs import Chain, Dating, Grid, Hole, Run, chains, confirm, date_run, joined, latched, parted
from warehouse.detect.stitch import Following, abandon, evidence_key, extend, follow, unlatch
from warehouse.model.evidence import Evidence
from warehouse.model.state import State
from warehouse.model.time import MS_PER_HOUR, Window

STEP = 15
GRID = Grid(0, 300, STEP)
FRESH = Dating(fresh_ms=45)
AT_LEAST_30 = Following(30, 0)


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


def test_a_pause_that_may_be_stitched_proves_no_length() -> None:
    """One true step near the end is open, since it may go on, and as short as it was."""
    how = Dating(fresh_ms=45, stitch_ms=120)
    single = date_run(Chain(195, 195), GRID, 299, how=how)
    assert (single.end_ms, single.seen_ms) == (None, 210)
    lasting = date_run(Chain(195, 285), GRID, 299, how=how)
    assert (lasting.end_ms, lasting.seen_ms) == (None, 299)


def test_edges_move_to_the_first_bad_and_the_first_good_sample() -> None:
    assert date_run(Chain(60, 105), GRID, 299, [scraped(48, 108)], (), FRESH) == Run(
        48, 108, 108, earliest_start_ms=33, earliest_end_ms=93
    )
    two = [scraped(48, 108), scraped(50, 115, phase=7)]
    assert date_run(Chain(60, 105), GRID, 299, two, (), FRESH) == Run(
        52, 108, 108, earliest_start_ms=37, earliest_end_ms=93
    )


def test_without_witnesses_edges_stay_on_the_grid() -> None:
    """Either may lie a step earlier, and where a range function blurs it by as much more."""
    assert date_run(Chain(60, 105), GRID, 299) == Run(60, 120, 120, earliest_start_ms=45, earliest_end_ms=105)
    assert date_run(Chain(0, 285), GRID, 280) == Run(0, None, 280, cut_off=True, earliest_start_ms=-15)
    blurred = date_run(Chain(60, 105), GRID, 299, how=Dating(start_late_ms=15, end_late_ms=30, blur_ms=10))
    assert blurred == Run(45, 90, 90, earliest_start_ms=20, earliest_end_ms=65)


def test_chains_join_over_short_breaks_and_not_over_holes() -> None:
    found = [Chain(0, 15, confirmed=False), Chain(45, 60), Chain(135, 150)]
    assert joined(found, 30) == [Chain(0, 60), Chain(135, 150)]
    assert joined(found, 30, [Hole(17, 40)]) == found


def test_a_run_that_may_yet_go_on_is_open() -> None:
    assert date_run(Chain(60, 240), GRID, 299, how=Dating(stitch_ms=60)).end_ms is None
    assert date_run(Chain(60, 210), GRID, 299, how=Dating(stitch_ms=60)).end_ms == 225
    # That it may go on does not make it longer than it was seen: a short one is not told for having a stitch.
    assert date_run(Chain(60, 240), GRID, 299, how=Dating(stitch_ms=60)).seen_ms == 255
    assert date_run(Chain(60, 285), GRID, 299).seen_ms == 299


def test_a_run_that_only_waits_is_as_long_as_it_was_seen() -> None:
    """Else whoever looks while it waits would tell an episode that is too short for whoever looks later."""
    waiting = date_run(Chain(60, 210), GRID, 299, how=Dating(stitch_ms=90))
    assert (waiting.end_ms, waiting.seen_ms) == (None, 225)
    assert date_run(Chain(60, 285), GRID, 299, how=Dating(stitch_ms=90)).seen_ms == 299
    assert follow([waiting], [], Window(200, 300), Following(200, 0)).fresh == []


def test_nothing_waits_across_a_hole() -> None:
    """What comes after it is never stitched, so the end is known already."""
    how = Dating(stitch_ms=90)
    assert date_run(Chain(60, 210), GRID, 299, holes=[Hole(240, None)], how=how).end_ms == 225
    assert date_run(Chain(60, 210), GRID, 299, holes=[Hole(218, None)], how=how).end_ms == 218
    assert date_run(Chain(60, 210), GRID, 299, holes=[Hole(30, 45)], how=how).end_ms is None


def test_a_latched_fault_lasts_until_something_clears_it() -> None:
    """A clear from before the onset clears nothing; a second run before the clear is the same fault."""
    runs = [Run(50, 60, 60), Run(80, 95, 95), Run(200, 210, 210)]
    assert [(run.start_ms, run.end_ms) for run in latched(runs, [(60, 40), (150, 140)], 300)] == [
        (50, 150),
        (200, None),
    ]
    assert latched(runs, [(150, 140)], 300)[0].earliest_end_ms == 140
    assert [(run.start_ms, run.end_ms) for run in latched(runs, [], 300)] == [(50, None)]


def test_a_boot_dated_by_a_clock_that_is_ahead_ends_a_latched_fault_when_it_is_seen() -> None:
    (run,) = latched([Run(50, 60, 60)], [(150, 170)], 300)
    assert (run.end_ms, run.earliest_end_ms) == (150, 150)
    (item,) = unlatch([told(50, None)], {"a": [(150, 170)]}, Window(100, 200))
    assert (item.end_ms, item.earliest_end_ms) == (150, 150)


def test_a_latched_fault_without_series_goes_on_until_a_clear() -> None:
    item, window = told(50, None), Window(100, 200)
    assert unlatch([item], {}, window) == [item]
    assert unlatch([item], {"a": [(110, 40)]}, window) == [item]
    cleared = unlatch([item], {"a": [(110, 40), (120, 115)]}, window)[0]
    assert (cleared.end_ms, cleared.earliest_end_ms) == (120, 115)


def test_a_good_sample_after_the_last_step_closes_the_run_inside_the_window() -> None:
    assert date_run(Chain(60, 285), GRID, 299, [scraped(48, 288)], (), FRESH) == Run(
        48, 288, 288, earliest_start_ms=33, earliest_end_ms=273
    )


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
    followed = follow([Run(90, 120, 120), Run(150, None, 195)], [told(50, None)], window, AT_LEAST_30)
    assert followed.continued == [told(50, 120)]
    assert followed.fresh == [Run(150, None, 195)]
    assert followed.lost == []


def test_short_and_past_runs_are_dropped_and_young_open_ones_wait() -> None:
    window = Window(100, 200)
    runs = [Run(10, 90, 90), Run(110, 125, 125), Run(165, None, 190)]
    assert follow(runs, [], window, AT_LEAST_30).fresh == []


def test_an_unconfirmed_run_goes_on_with_what_is_told_and_begins_nothing() -> None:
    window = Window(100, 200)
    run = Run(50, 160, 160, confirmed=False)
    assert follow([run], [], window, AT_LEAST_30).fresh == []
    assert follow([run], [told(50, None)], window, AT_LEAST_30).continued == [told(50, 160)]


def test_an_end_that_a_later_window_saw_stands() -> None:
    window = Window(100, 200)
    assert extend(told(50, 250), None, window) == told(50, 250)
    assert extend(told(50, 250), 180, window) == told(50, 250)
    assert extend(told(50, 150), 160, window) == told(50, 160)


def test_evidence_that_late_data_disproves_keeps_no_length() -> None:
    window = Window(100, 200)
    assert abandon(told(80, None), 60, window) == replace(told(80, 80), earliest_end_ms=80)
    assert abandon(told(20, None), 60, window) == replace(told(20, 100), earliest_end_ms=20)
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


def test_a_second_event_begins_where_the_time_that_is_said_becomes_another() -> None:
    values = {0: 100.0, 15: 100.0, 30: 101.5, 45: 700.0, 75: 700.0}
    assert parted(Chain(0, 75), values, STEP) == [Chain(0, 30), Chain(45, 75)]
    assert parted(Chain(0, 30, confirmed=False), values, STEP) == [Chain(0, 30, confirmed=False)]


def test_the_lost_part_of_what_goes_on_is_asked_from_its_onset_and_once_an_hour() -> None:
    asked: list[tuple[int, int | None]] = []

    def lost_of(start_ms: int, end_ms: int | None) -> int | None:
        asked.append((start_ms, end_ms))
        return 7

    how = Following(30, 0, lost_of=lost_of)
    hour = MS_PER_HOUR
    seen_late = Run(hour - 500, None, hour)
    assert follow([seen_late], [told(50, None)], Window(hour - 900, hour - 1), how).continued == [told(50, None)]
    crossed = follow([seen_late], [told(50, None)], Window(hour - 900, hour), how).continued
    assert (asked, crossed[0].lost_ppm) == ([(50, None)], 7)
    young = follow([Run(hour - 20, None, hour)], [told(hour - 20, None)], Window(hour - 900, hour), how).continued
    assert (len(asked), young[0].lost_ppm) == (1, None)
    ended = follow([Run(hour - 500, hour - 300, hour)], [told(50, None)], Window(hour - 900, hour - 1), how).continued
    assert (asked[-1], ended[0].lost_ppm) == ((50, hour - 300), 7)
