"""Every console block of the README, run word for word from the repository's root: it prints what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def console_steps() -> list[tuple[str, str]]:
    """Gives each command of the README with the output printed below it, in order."""
    steps = []
    for block in re.findall(r"```console\n(.*?)```", README, flags=re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            steps.append((command, output))
    return steps


def test_readme_console_blocks(database_url: str) -> None:
    steps = console_steps()
    assert len(steps) == 7
    environment = os.environ | {
        "GPU_MINUTES_DATABASE_URL": database_url,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    for command, output in steps:
        result = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=ROOT, env=environment)
        assert (result.returncode, result.stderr) == (0, ""), command
        assert result.stdout == output, command


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
