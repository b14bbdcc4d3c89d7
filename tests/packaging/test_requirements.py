"""requirements.txt: pinned, hashed, free of addresses, and within what pyproject asks for."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution

import pytest
from packaging.requirements import Requirement

from tests.packaging.conftest import ROOT
from tools.runtime_requirements import blocks, closure, direct, normal

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REQUIREMENTS = blocks((ROOT / "requirements.txt").read_text())
BLOCK = re.compile(r"[a-z0-9][a-z0-9._-]*==[^ ]+( ; [^\\]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+\n(    #.*\n)*")


def _asked() -> Iterator[Requirement]:
    optional = PROJECT["optional-dependencies"]
    for line in [*PROJECT["dependencies"], *(line for extra in optional.values() for line in extra)]:
        requirement = Requirement(line)
        if requirement.name != PROJECT["name"]:
            yield requirement


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_every_requirement_is_pinned_by_hash(name: str) -> None:
    assert BLOCK.fullmatch(REQUIREMENTS[name]), REQUIREMENTS[name][:200]


def test_no_line_names_an_index_or_an_address() -> None:
    text = (ROOT / "requirements.txt").read_text()
    assert "://" not in text
    assert not [line for line in text.splitlines() if line.startswith("-")]
    assert text.count("==") == len(REQUIREMENTS)


@pytest.mark.parametrize("asked", list(_asked()), ids=str)
def test_the_pin_is_within_the_asked_range(asked: Requirement) -> None:
    version = REQUIREMENTS[normal(asked.name)].split("==")[1].split()[0]
    assert asked.specifier.contains(version)


def test_the_exporters_part_is_two_packages() -> None:
    assert closure(REQUIREMENTS, direct(PROJECT, [])) == ["nvidia-ml-py", "prometheus-client"]


@pytest.mark.parametrize("extra", ["kubernetes", "web", "warehouse", "api", "dashboard", "dev"])
def test_the_part_for_an_extra_is_what_the_packages_themselves_ask_for(extra: str) -> None:
    seen: set[tuple[str, str]] = set()
    todo = [(requirement.name, "") for requirement in _asked_with(extra)]
    todo += [(requirement.name, asked) for requirement in _asked_with(extra) for asked in requirement.extras]
    while todo:
        name, of_extra = todo.pop()
        if (normal(name), of_extra) in seen:
            continue
        seen.add((normal(name), of_extra))
        for line in distribution(name).requires or []:
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": of_extra}):
                todo += [(needed.name, ""), *((needed.name, asked) for asked in needed.extras)]
    assert closure(REQUIREMENTS, direct(PROJECT, [extra])) == sorted({name for name, _ in seen})


def _asked_with(extra: str) -> list[Requirement]:
    wanted = direct(PROJECT, [extra])
    return [requirement for requirement in _asked() if normal(requirement.name) in wanted]
