"""No function over 70 lines, no file over 400, without a reason written here."""

from __future__ import annotations

import ast

import pytest

from tests.packaging.conftest import ROOT, tracked

MOST_FILE_LINES = 400
MOST_FUNCTION_LINES = 70

# Path, or path::function -> why it may be longer.
REASONED: dict[str, str] = {}

SOURCES = tracked("*.py")


def _long_parts(name: str) -> dict[str, int]:
    text = (ROOT / name).read_text()
    found = {}
    lines = text.count("\n")
    if lines > MOST_FILE_LINES:
        found[name] = lines
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MOST_FUNCTION_LINES:
                found[f"{name}::{node.name}"] = length
    return found


@pytest.mark.parametrize("name", SOURCES)
def test_sizes(name: str) -> None:
    assert {part: lines for part, lines in _long_parts(name).items() if part not in REASONED} == {}


def test_every_exception_is_still_needed() -> None:
    assert set(REASONED) == {part for name in SOURCES for part in _long_parts(name) if part in REASONED}
