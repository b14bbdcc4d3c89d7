"""Who may import what: the contracts of pyproject, and no package that is not declared."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT, tracked
from tools.runtime_requirements import direct, normal

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OWN = {"exporter", "warehouse", "dashboard"}

# Top folder -> the extras that it is installed with.
EXTRAS = {"exporter": ["web"], "warehouse": ["warehouse", "api"], "dashboard": ["dashboard"]}


def _imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("folder", EXTRAS)
def test_what_is_imported_is_declared(folder: str) -> None:
    declared = direct(PROJECT, EXTRAS[folder])
    owners = packages_distributions()
    undeclared = {
        f"{name}: {module}"
        for name in tracked(f"{folder}/*.py")
        for module in _imported(ROOT / name) - OWN - set(sys.stdlib_module_names)
        if not {normal(owner) for owner in owners.get(module, [])} & declared
    }
    assert undeclared == set()


def test_the_import_contracts_hold() -> None:
    # lint-imports has no `python -m`; it stands beside the interpreter.
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
