"""docs/benchmarks.md: each benchmark owns the block between two markers of its name and writes no other word."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def write_block(name: str, block: str) -> None:
    """Prints a block and puts it between `<!-- NAME: begin -->` and `<!-- NAME: end -->`.

    Raises:
        ValueError: the page has no such markers.
    """
    page = PAGE.read_text(encoding="utf-8")
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = page.partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found and found_end):
        raise ValueError(f"{PAGE} has no block {name}")
    sys.stdout.write(block + "\n")
    PAGE.write_text(f"{before}{begin}\n{block.strip()}\n{end}{after}", encoding="utf-8")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, all columns but the first set to the right."""
    lines = [head, ("---", *("--:" for _ in head[1:])), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
