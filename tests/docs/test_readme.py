"""Every console block of the README, run word for word from the repository's root: it prints what it says."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.docs.consoles import ROOT, run_page

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_readme_console_blocks(database_url: str) -> None:
    assert len(run_page(README, database_url)) == 7


def test_readme_names_only_what_is_there() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
    help_text = subprocess.run(
        [sys.executable, "-c", "from warehouse.cli import main; main()", "--help"], capture_output=True, text=True
    ).stdout
    for command in re.findall(r"`gpu-minutes (\w+)", README):
        assert re.search(rf"^  {command}\b", help_text, flags=re.MULTILINE), command
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"make (demo-clean|demo|test|setup)\b", README)):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target
