"""Every reported symptom of the table has a test, and every mark has a row."""

from __future__ import annotations

import ast
import re

from tests.packaging.conftest import ROOT, tracked


def _marked() -> set[int]:
    """Numbers in `@pytest.mark.pain(...)`, also where a parameter set carries the mark."""
    found: set[int] = set()
    for name in tracked("tests/*.py"):
        for node in ast.walk(ast.parse((ROOT / name).read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "pain":
                found |= {argument.value for argument in node.args if isinstance(argument, ast.Constant)}
    return found


def test_every_symptom_has_a_test_and_every_mark_a_row() -> None:
    page = (ROOT / "docs" / "exporter-symptoms.md").read_text()
    rows = [int(number) for number in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)]
    assert rows == list(range(1, 49))
    assert _marked() == set(rows)
