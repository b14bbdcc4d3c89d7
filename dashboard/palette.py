"""The colours of the states, and how far apart they stand for every kind of eye."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from itertools import combinations
from typing import Literal

from warehouse.model.state import State

Mode = Literal["light", "dark"]

# Colour names alone cannot carry the meaning: these states are also hatched.
HATCH = {State.UNKNOWN: "/", State.STRANDED: "\\", State.HUNG: "x"}

# Machado, Oliveira and Fernandes 2009, severity 1, on linear RGB.
_VISION = {
    "normal": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "protan": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deutan": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritan": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
# Ottosson 2020, linear sRGB to OKLab.
_LMS = (
    (0.4122214708, 0.5363325363, 0.0514459929),
    (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
)
_LAB = (
    (0.2104542553, 0.7936177850, -0.0040720468),
    (1.9779984951, -2.4285922050, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.8086757660),
)

_Vector = tuple[float, float, float]
_Matrix = tuple[_Vector, _Vector, _Vector]


@cache
def _document() -> dict[str, dict[str, dict[str, str]]]:
    loaded: dict[str, dict[str, dict[str, str]]] = json.loads(
        files("dashboard").joinpath("palette.json").read_text(encoding="utf-8")
    )
    return loaded


@cache
def order() -> tuple[State, ...]:
    """Gives the states in the one order of all stacks, bridges and legends."""
    return tuple(State(name) for name in _document()["order"])


def colour(state: State, mode: Mode) -> str:
    """Gives the colour of a state as `#rrggbb`."""
    return _document()["state"][mode][state.value]


def colours(kind: Literal["state", "family"], mode: Mode) -> dict[str, str]:
    """Gives all colours of a kind by name."""
    return dict(_document()[kind][mode])


def distance(found: dict[str, str]) -> float:
    """Gives the smallest OKLab distance x100 between any two colours under any of four kinds of vision."""
    smallest = float("inf")
    for matrix in _VISION.values():
        labs = [_oklab(_times(matrix, _linear(text))) for text in found.values()]
        for one, other in combinations(labs, 2):
            smallest = min(smallest, 100 * sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) ** 0.5)
    return smallest


def _linear(text: str) -> _Vector:
    parts = [int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return red, green, blue


def _times(matrix: _Matrix, vector: _Vector) -> _Vector:
    first, second, third = (sum(m * v for m, v in zip(row, vector, strict=True)) for row in matrix)
    return first, second, third


def _oklab(linear: _Vector) -> _Vector:
    clipped = tuple(min(max(part, 0.0), 1.0) for part in linear)
    lms = _times(_LMS, (clipped[0], clipped[1], clipped[2]))
    return _times(_LAB, (lms[0] ** (1 / 3), lms[1] ** (1 / 3), lms[2] ** (1 / 3)))
