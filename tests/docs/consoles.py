"""Pages whose console blocks are run: each command with what it prints, word for word.

In an answer `…` stands for any characters of its line: what differs from run to run, such as a time of day, a user
or a hash.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg

ROOT = Path(__file__).parent.parent.parent
REFUSAL = "gpu-minutes: "


def blocks(page: str) -> list[tuple[str, str]]:
    """Gives the console and SQL blocks of a page, in order: which of both, and its text."""
    return re.findall(r"```(console|sql)\n(.*?)```", page, flags=re.DOTALL)


def steps(block: str) -> Iterator[tuple[str, str]]:
    """Yields each command of a console block with the output printed below it."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def prints(answer: str, output: str) -> bool:
    """Tells whether an answer is what a page prints, `…` standing for anything inside its line."""
    return re.fullmatch(".*".join(map(re.escape, output.split("…"))), answer) is not None


def run_page(page: str, database_url: str) -> list[str]:
    """Runs a page on one database, from the repository's root, and compares each answer with what is printed.

    What goes to standard error is read like a terminal shows it; an answer that begins with a refusal exits with 2, any
    other with 0.

    Returns:
        The commands that were run.
    """
    environment = os.environ | {
        "GPU_MINUTES_DATABASE_URL": database_url,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    ran = []
    for kind, block in blocks(page):
        if kind == "sql":
            with psycopg.connect(database_url, autocommit=True) as connection:
                connection.execute(block.encode())
            continue
        for command, output in steps(block):
            result = subprocess.run(
                ["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT,
                env=environment,
            )  # fmt: skip
            assert prints(result.stdout, output), f"{command}\nprints\n{result.stdout}\nand not\n{output}"
            assert result.returncode == (2 if output.startswith(REFUSAL) else 0), command
            ran.append(command)
    return ran
