"""The catalogue of causes: complete, true to its table, and loud about every fault at once."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator
from importlib import import_module, invalidate_caches
from pathlib import Path
from types import ModuleType

import pytest

from exporter.metrics import FAMILIES
from tools.causes_page import render_page
from warehouse.causes import CatalogueError, load_causes, read_catalogue
from warehouse.model.cause import UNATTRIBUTED
from warehouse.model.state import State

TABLE = Path(__file__).parent / "data" / "cause_taxonomy.csv"
PAGE = Path(__file__).parents[2] / "docs" / "causes.md"

# The normal course of things: time under them is no incident's loss.
NO_INCIDENT = {
    "operations/cold_start",
    "scheduling/fragmentation",
    "workload/idle_allocation",
    "capacity/stranded",
    "operations/planned_maintenance",
}


# Not in the table: what a source names as a family only, without saying which part of it failed.
FAMILIES_WITHOUT_PART = {"accelerator/unspecified", "host/unspecified", "software/unspecified"}


def table() -> dict[str, dict[str, str]]:
    """Gives the rows of the table by code."""
    with TABLE.open(newline="") as file:
        return {row["cause"]: row for row in csv.DictReader(file)}


def test_all_61_causes_of_the_table_are_there_with_their_ranks() -> None:
    causes = load_causes()
    ranks = {code: cause.rank for code, cause in causes.items() if code not in FAMILIES_WITHOUT_PART}
    assert len(ranks) == 61
    assert ranks == {code: int(row["rank"]) for code, row in table().items()}
    assert list(causes) == sorted(causes)
    assert all(cause.code == code for code, cause in causes.items())


def test_the_usual_state_is_the_first_that_the_table_names() -> None:
    known = {str(state) for state in State}
    for code, row in table().items():
        word = re.match(r"[a-z_]*", row["default_state"])
        expected = word.group() if word and word.group() in known else None
        assert load_causes()[code].state == expected, code


def test_only_the_normal_course_of_things_opens_no_incident() -> None:
    assert {code for code, cause in load_causes().items() if not cause.opens_incident} == NO_INCIDENT


def test_symptom_and_unknown_stand_apart() -> None:
    causes = load_causes()
    assert [code for code, cause in causes.items() if cause.is_symptom] == ["symptom/collective_timeout"]
    assert max(causes.values(), key=lambda cause: cause.rank).code == UNATTRIBUTED


def test_every_family_of_ours_that_is_named_can_be_on_the_exporter_page() -> None:
    names = {family.name for family in FAMILIES}
    for cause in load_causes().values():
        texts = [cause.signature, cause.first_step, *(detector.expr for detector in cause.detectors)]
        assert set(re.findall(r"gpuminutes_\w+", " ".join(texts))) <= names, cause.code


def test_the_page_about_the_causes_is_fresh() -> None:
    assert PAGE.read_text() == render_page(load_causes())


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """Gives an empty package to put causes into, and its name."""
    name = f"catalogue_{tmp_path.name.replace('-', '_')}"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    invalidate_caches()
    yield folder, name
    for loaded in [loaded for loaded in sys.modules if loaded.split(".")[0] == name]:
        del sys.modules[loaded]


def write(folder: Path, code: str, text: str) -> None:
    """Puts one file of a cause into the package."""
    category, name = code.split("/")
    (folder / category).mkdir(exist_ok=True)
    (folder / category / "__init__.py").touch()
    (folder / category / f"{name}.py").write_text(text)


def cause_text(title: str, rank: int, state: str = "State.DOWN", more: str = "") -> str:
    """Gives the text of a file of a cause."""
    words = ", ".join(f'{key}="x"' for key in ("owner", "signature", "duration", "blast", "source"))
    return (
        "from warehouse.model.cause import Cause, Detector\nfrom warehouse.model.state import State\n"
        f'CAUSE = Cause(title="{title}", rank={rank}, state={state}, {words}, first_step="x"{more})\n'
    )


def test_a_new_cause_is_a_new_file(package: tuple[Path, str]) -> None:
    folder, name = package
    write(folder, "host/fan", cause_text("Fan", 25))
    assert list(read_catalogue(import_module(name))) == ["host/fan"]


def test_all_faults_are_named_at_once(package: tuple[Path, str]) -> None:
    folder, name = package
    detector = 'Detector("seen", 1, "up == 0", "planet", State.DOWN, 0, "why")'
    write(folder, "host/empty", "")
    write(folder, "host/far", cause_text("Far", 31))
    write(folder, "host/fan", cause_text("Fan", 25, state="None"))
    write(folder, "host/Loud", cause_text("Fan", 25))
    write(folder, "weather/storm", cause_text(" ", 10))
    write(folder, "power/planet", cause_text("Planet", 10, more=f", detectors=({detector},)"))
    module: ModuleType = import_module(name)
    with pytest.raises(CatalogueError) as caught:
        read_catalogue(module)
    assert sorted(caught.value.faults) == [
        "host/Loud: 'Loud' is not snake_case",
        "host/empty: the file has no constant CAUSE",
        "host/fan: the usual state is missing",
        "host/fan: title 'Fan' is already used by host/Loud",
        "host/far: rank 31 is outside 20 to 25",
        "power/planet: detector seen has the unknown scope 'planet'",
        "weather/storm: category 'weather' has no band of ranks",
        "weather/storm: title is empty",
    ]
    assert "\n" not in str(caught.value)
