"""The rules of the tiling, each as a picture."""

from __future__ import annotations

import pytest

from tests.pictures import claims_of, floor, paint, tiled
from warehouse.ledger.sweep import cut, sweep
from warehouse.model.entry import Claim
from warehouse.model.state import State
from warehouse.model.time import MS_PER_MINUTE, Window


@pytest.mark.parametrize(
    ("why", "claims", "expected"),
    [
        ("silence is unknown", ["      "], "......"),
        (
            "lost work replaces productive time, down follows",
            ["PPPPPPPPPPPPPPPP  ", "   LLL", "      DDDD"],
            "PPPLLLDDDDPPPPPP..",
        ),
        ("lost work replaces checkpoint, starved and degraded too", ["PCVG", "LLLL"], "LLLL"),
        ("lost work never replaces anything else", ["TAUBIS ", "LLLLLLL"], "TAUBIS."),
        ("lost work ends where the hang begins", ["PPPPPP", " LLLLL", "   HHH"], "PLLHHH"),
        ("down beats recovering beats hung", ["HHHHHH", "  RRRR", "DDD"], "DDDRRR"),
        ("what begins inside a window belongs to it", [" MMMM ", "  DDDD"], ".MMMMD"),
        ("what was open before stays down", [" MMMM ", "DDDDDD"], "DDDDDD"),
        ("begun with the window is begun inside it", ["MMM ", "DDDD"], "MMMD"),
        ("recovering begun inside belongs to the window too", ["MMM ", " RRR"], "MMMR"),
        ("a second window does not own what the first one did not see begin", ["  MMM   ", " DDDDDDD"], ".DDDDDDD"),
        ("a hole between flaps stays productive", ["PPPPPPP", " D D D "], "PDPDPDP"),
        ("productive beats idle, idle_blocked beats idle", ["IIII", "BB  ", "   P"], "BBIP"),
        ("stranded beats all", ["XX", "DD"], "XX"),
    ],
)
def test_picture(why: str, claims: list[str], expected: str) -> None:
    assert tiled(*claims) == expected, why


def test_tenure_bounds_everything() -> None:
    claims = [
        Claim(((0, 2),), MS_PER_MINUTE, 3 * MS_PER_MINUTE, State.UNKNOWN, "t", "tenure", floor=True),
        Claim(((0, 4),), 0, 5 * MS_PER_MINUTE, State.DOWN, "e", "s"),
    ]
    assert paint(sweep(claims, Window(0, 5 * MS_PER_MINUTE)), 4, 5) == [" DD  ", " DD  ", "     ", "     "]


def test_a_hall_outage_is_one_rectangle_each_side() -> None:
    claims = [floor(10_000, 30), Claim(((0, 10_000),), 600_000, 1_200_000, State.DOWN, "e", "s")]
    entries = sweep(claims, Window(0, 30 * MS_PER_MINUTE))
    assert [(e.slot_from, e.slot_to, e.payload.state.value) for e in entries] == [
        (0, 10_000, "unknown"),
        (0, 10_000, "down"),
        (0, 10_000, "unknown"),
    ]


def test_ties_go_to_the_earlier_onset_then_the_smaller_id() -> None:
    window = Window(0, 10)
    base = Claim(((0, 1),), 0, 10, State.UNKNOWN, "t", "tenure", floor=True)
    late = Claim(((0, 1),), 2, 10, State.DOWN, "1", "s", cause="late")
    early = Claim(((0, 1),), 1, 10, State.DOWN, "2", "s", cause="early")
    assert [e.payload.cause for e in sweep([base, late, early], window)] == [None, "early"]
    nine = Claim(((0, 1),), 0, 10, State.DOWN, "9", "s", cause="nine")
    ten = Claim(((0, 1),), 0, 10, State.DOWN, "10", "s", cause="ten")
    assert [e.payload.cause for e in sweep([base, ten, nine], window)] == ["nine"]


def test_a_measured_word_beats_a_presumed_one_of_the_same_state() -> None:
    base = Claim(((0, 1),), 0, 10, State.UNKNOWN, "t", "tenure", floor=True)
    presumed = Claim(((0, 1),), 0, 10, State.PRODUCTIVE, "a", "alloc", attempt_id=7, basis="presumed")
    measured = Claim(((0, 1),), 4, 8, State.PRODUCTIVE, "e", "s")
    got = [(e.end_ms, e.payload.basis, e.payload.attempt_id) for e in sweep([base, presumed, measured], Window(0, 10))]
    assert got == [(4, "presumed", 7), (8, "measured", 7), (10, "presumed", 7)]


def test_cutting_changes_no_total_and_merges_inside_a_piece() -> None:
    base = floor(2, 10)
    claims = [
        base,
        Claim(((0, 1),), 1 * MS_PER_MINUTE, 9 * MS_PER_MINUTE, State.DOWN, "e", "s"),
        Claim(((1, 2),), 2 * MS_PER_MINUTE, 9 * MS_PER_MINUTE, State.DOWN, "e", "s"),
    ]
    whole = sweep(claims, Window(0, 10 * MS_PER_MINUTE))
    pieces = cut(whole, [5 * MS_PER_MINUTE])
    assert sum(e.gpu_ms for e in pieces) == sum(e.gpu_ms for e in whole)
    assert [(e.slot_from, e.slot_to) for e in pieces if e.start_ms == 5 * MS_PER_MINUTE] == [(0, 2)]


def holds(job: str, picture: str, share_ppm: int | None = None, attempt_id: int = 1) -> Claim:
    """Gives the allocation of a job over the one run of `#` in a picture of one slot."""
    start, end = picture.index("#"), picture.rindex("#") + 1
    return Claim(
        ((0, 1),), start * MS_PER_MINUTE, end * MS_PER_MINUTE, State.PRODUCTIVE, job, "allocations",
        attempt_id=attempt_id, basis="presumed", job=job, share_ppm=share_ppm,
    )  # fmt: skip


Held = tuple[int, int | None, int | None, tuple[int, ...] | None]


def held_by(minutes: int, *claims: Claim) -> list[Held]:
    """Gives (end minute, first holder, held ppm, sharers) of each entry of one slot."""
    entries = sweep([floor(1, minutes), *claims], Window(0, minutes * MS_PER_MINUTE))
    return [(e.end_ms // MS_PER_MINUTE, e.payload.attempt_id, e.payload.held_ppm, e.payload.sharers) for e in entries]


@pytest.mark.parametrize(
    ("why", "claims", "expected"),
    [
        ("two whole jobs: nobody knows", ["      "], "PP..PP"),
        ("a fault is known better", [" DDDD "], "PDDDDP"),
        ("so is work that somebody measured", ["   P  "], "PP.PPP"),
        ("a partial loss too", ["  G   "], "PPG.PP"),
        ("idle is known no better than the jobs' own words", ["IIIIII"], "PP..PP"),
        ("lost work needs work: contested time is none", ["LLLLLL"], "LL..LL"),
        ("lost work replaces measured work, contested or not", ["LLLLLL", "  P   "], "LLL.LL"),
        ("a window owns what began inside it", [" MMMM ", "  DD  "], "PMMMMP"),
    ],
)
def test_contested_time_as_a_picture(why: str, claims: list[str], expected: str) -> None:
    jobs = [holds("j", "####", attempt_id=1), holds("k", "  ####", attempt_id=2)]
    entries = sweep([*claims_of(claims), *jobs, floor(1, 6)], Window(0, 6 * MS_PER_MINUTE))
    assert paint(entries, 1, 6)[0] == expected, why
    # Whoever keeps the state, nobody holds the two contested minutes.
    contested = [e for e in entries if e.payload.sharers == (1, 2)]
    assert sum(e.gpu_ms for e in contested) == 2 * MS_PER_MINUTE
    assert {e.payload.attempt_id for e in contested} == {None}


def test_an_entry_ends_where_the_holders_change() -> None:
    half, quarter = 500_000, 250_000
    assert held_by(6, holds("j", "####", half, 1), holds("k", "  ####", quarter, 2)) == [
        (2, 1, half, (1,)),
        (4, 1, 750_000, (1, 2)),
        (6, 2, quarter, (2,)),
    ]


def test_shares_that_fill_the_gpu_hold_it_whole() -> None:
    assert held_by(4, holds("j", "####", 400_000, 2), holds("k", "####", 600_000, 1)) == [(4, 2, None, (1, 2))]
    assert held_by(4, holds("j", "####", 400_000, 2), holds("k", "####", 600_001, 1)) == [(4, None, None, (1, 2))]


def test_of_one_job_the_largest_share_counts() -> None:
    small, whole = holds("j", "######", 300_000, 1), holds("j", "  ##  ", None, 2)
    assert held_by(6, small, whole) == [(2, 1, 300_000, (1,)), (4, 2, None, None), (6, 1, 300_000, (1,))]


def test_sharers_stay_through_a_fault_and_mark_no_one_else() -> None:
    jobs = [holds("j", "####", 300_000, 1), holds("k", "####", 300_000, 2)]
    entries = sweep([*claims_of([" DD "]), *jobs, floor(2, 4)], Window(0, 4 * MS_PER_MINUTE))
    assert [(e.payload.state.value, e.payload.held_ppm, e.payload.sharers) for e in entries if e.slot_from == 0] == [
        ("productive", 600_000, (1, 2)),
        ("down", 600_000, (1, 2)),
        ("productive", 600_000, (1, 2)),
    ]
    assert {(e.payload.held_ppm, e.payload.sharers) for e in entries if e.slot_from == 1} == {(None, None)}
