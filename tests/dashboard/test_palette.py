"""The colours stand apart for every kind of eye."""

from __future__ import annotations

from typing import Literal

import pytest

from dashboard import palette
from dashboard.palette import Mode
from warehouse.model.state import State

_FLOOR = 5.0


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("kind", ["state", "family"])
def test_colours_stand_apart_under_normal_and_dichromat_vision(kind: Literal["state", "family"], mode: Mode) -> None:
    assert palette.distance(palette.colours(kind, mode)) >= _FLOOR


def test_the_score_finds_colours_that_a_deutan_cannot_tell() -> None:
    assert palette.distance({"red": "#b04a4a", "green": "#6e6e3c"}) < _FLOOR
    assert palette.distance({"black": "#000000", "white": "#ffffff"}) == pytest.approx(100, abs=0.1)


def test_every_state_has_its_place_and_colours() -> None:
    assert sorted(palette.order()) == sorted(State)
    assert set(palette.colours("state", "light")) == set(palette.colours("state", "dark")) == set(State)
    assert palette.order()[-1] is State.PRODUCTIVE
