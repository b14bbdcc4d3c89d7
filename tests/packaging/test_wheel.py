"""What the wheel holds, what it asks for, and that it works where it is installed."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from email.parser import Parser
from pathlib import Path

import pytest

from tests.packaging.conftest import Environment, tracked

TRACE = Path(__file__).resolve().parents[1] / "fixtures/infinitehbd/fault_trace.json"
PACKAGES = ("exporter", "warehouse", "dashboard")


@pytest.fixture(scope="session")
def names(wheel: Path) -> set[str]:
    """The files of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_every_tracked_file_of_the_packages_is_inside(names: set[str]) -> None:
    assert set(tracked(*PACKAGES)) <= names


def test_migrations_live_inside_the_warehouse(names: set[str]) -> None:
    inside = {name.removeprefix("warehouse/_migrations/") for name in names if "/_migrations/" in name}
    wanted = {name.removeprefix("migrations/") for name in tracked("migrations")}
    assert {"env.py", "script.py.mako", "versions/0001_ledger.py"} <= wanted <= inside


def test_types_are_marked(names: set[str]) -> None:
    assert {f"{package}/py.typed" for package in PACKAGES} <= names


def test_nothing_else_lands_beside_the_packages(names: set[str]) -> None:
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)


def test_the_base_install_is_two_small_wheels(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (path,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(path).decode())
    required = metadata.get_all("Requires-Dist") or []
    base = sorted(line.split(">")[0].split("<")[0].strip() for line in required if "extra ==" not in line)
    assert base == ["nvidia-ml-py", "prometheus-client"]
    assert set(metadata.get_all("Provides-Extra") or []) == {
        "kubernetes",
        "web",
        "warehouse",
        "api",
        "dashboard",
        "dev",
    }


@pytest.fixture(scope="session")
def installed(wheel: Path, environment: Callable[[str], Environment], dependencies: Path) -> Environment:
    """The wheel in a fresh environment that also sees every dependency."""
    fresh = environment("full")
    fresh.install(wheel)
    fresh.show(dependencies)
    return fresh


def test_the_installed_packages_are_the_wheels(installed: Environment) -> None:
    script = "import exporter, warehouse, dashboard; print(exporter.__file__, warehouse.__file__, dashboard.__file__)"
    found = installed.run("python", "-c", script).stdout.split()
    assert [Path(path).parent.parent for path in found] == [installed.site] * 3


def test_the_installed_command_books_a_real_trace(installed: Environment, database_url: str) -> None:
    env = {"GPU_MINUTES_DATABASE_URL": database_url}
    installed.run("gpu-minutes", "import", "infinitehbd", TRACE, env=env)
    answer = json.loads(installed.run("gpu-minutes", "goodput", "--format", "json", env=env).stdout)
    assert answer["installed_gpu_ms"] == 96_215_040_000_000
    assert {row["key"]: row["gpu_ms"] for row in answer["rows"]}["down"] == 2_232_110_200_320
