"""The words of the repository: a glossary without holes, numbered decisions, nothing of anyone's workplace."""

from __future__ import annotations

import re

import pytest

from tests.packaging.conftest import ROOT, tracked
from warehouse.model.state import GpuTimeClass, State

# Split, so that this file passes its own test.
REGISTRIES = ("pypi" + ".org", "python" + "hosted.org", "npmjs" + ".org", "proxy.golang" + ".org")
FORBIDDEN = re.compile("|".join([*map(re.escape, REGISTRIES), r"(?<![\w.-])/work" + "/", "/tmp/bash" + "_jobs"]))
UNDONE = re.compile(r"\b(TO" + r"DO|FIX" + r"ME)\b")

# Records of other systems, kept as they came.
DATA = ("tests/fixtures/",)


def _texts() -> list[tuple[str, str]]:
    found = []
    for name in tracked():
        if name.startswith(DATA):
            continue
        try:
            found.append((name, (ROOT / name).read_text()))
        except UnicodeDecodeError:
            continue  # a picture or an archive
    return found


@pytest.mark.parametrize("pattern", [FORBIDDEN, UNDONE], ids=["places", "undone"])
def test_no_file_holds_forbidden_words(pattern: re.Pattern[str]) -> None:
    found = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in _texts()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("word", [*State, *GpuTimeClass], ids=str)
def test_the_glossary_defines_every_state_and_class(word: State | GpuTimeClass) -> None:
    section = {State: "States", GpuTimeClass: "Classes of GPU time"}[type(word)]
    text = (ROOT / "GLOSSARY.md").read_text()
    body = text.split(f"## {section}\n", 1)[1].split("\n## ", 1)[0]
    assert re.search(rf"^\| \*?{word}\*? \| \S.*\|$", body, re.MULTILINE), f"{word} is missing under {section}"


def test_decisions_are_numbered_without_holes() -> None:
    names = [name.rsplit("/", 1)[1] for name in tracked("docs/decisions/*.md")]
    assert [name[:5] for name in sorted(names)] == [f"{number:04}-" for number in range(1, len(names) + 1)]


@pytest.mark.parametrize("name", tracked("docs/decisions/*.md"))
def test_a_decision_says_why_what_and_at_what_price(name: str) -> None:
    lines = (ROOT / name).read_text().splitlines()
    assert re.fullmatch(r"# \d{4} \S.*", lines[0])
    assert [line for line in lines if line.startswith("## ")] == ["## Context", "## Decision", "## Consequences"]


def test_every_direct_dependency_has_its_reason() -> None:
    project = (ROOT / "pyproject.toml").read_text().split("[project.scripts]")[0]
    names = set(re.findall(r'"([a-z][a-z0-9-]*)(?:\[[a-z]+\])?[>=]=', project))
    record = next((ROOT / "docs/decisions").glob("0002-*.md")).read_text()
    assert len(names) > 20
    assert {name for name in names if f"| {name} |" not in record} == set()
