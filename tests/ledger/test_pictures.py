"""The rules of the tiling, each as a picture."""

from __future__ import annotations

import pytest

from tests.pictures import floor, paint, tiled
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
