"""Prints the part of requirements.txt that an installation needs, hashes included.

    python tools/runtime_requirements.py              the exporter on a GPU node
    python tools/runtime_requirements.py warehouse    the command line and the worker
    python tools/runtime_requirements.py dashboard    all of it

Standard library only: it runs before anything is installed.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_WANTED_BY = re.compile(r"^ +#(?: via)? +(\S+)", re.MULTILINE)


def normal(name: str) -> str:
    """Gives the one spelling of a distribution's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def direct(project: Mapping[str, object], extras: Iterable[str]) -> set[str]:
    """Gives the names that pyproject itself asks for, with these extras."""
    base, optional = project["dependencies"], project["optional-dependencies"]
    assert isinstance(base, list) and isinstance(optional, dict)
    found: set[str] = set()
    for text in [*base, *(line for extra in extras for line in optional[extra])]:
        match = _NAME.match(text)
        assert match is not None
        if normal(match[0]) != project["name"]:
            found.add(normal(match[0]))
        else:
            found |= direct(project, text[text.index("[") + 1 : text.index("]")].split(","))
    return found


def blocks(requirements: str) -> dict[str, str]:
    """Gives each requirement's lines by its name; the comments below one name what wants it."""
    parts = re.split(r"^(?=[A-Za-z0-9])", requirements, flags=re.MULTILINE)
    found = {}
    for part in parts:
        match = _NAME.match(part)
        if match is not None:
            found[normal(match[0])] = part
    return found


def closure(requirements: Mapping[str, str], wanted: Iterable[str]) -> list[str]:
    """Gives the names that the wanted ones need, themselves included, sorted."""
    wanted_by = {name: {normal(n) for n in _WANTED_BY.findall(text)} for name, text in requirements.items()}
    kept = set(wanted)
    while True:
        more = {name for name, wanters in wanted_by.items() if name not in kept and wanters & kept}
        if not more:
            return sorted(kept)
        kept |= more


def main(extras: list[str]) -> int:
    """Prints the requirements; 2 for an extra that does not exist."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    known = project["optional-dependencies"]
    if unknown := [extra for extra in extras if extra not in known]:
        sys.stderr.write(f"no extra {', '.join(unknown)}; there are {', '.join(known)}\n")
        return 2
    requirements = blocks((_ROOT / "requirements.txt").read_text())
    for name in closure(requirements, direct(project, extras)):
        sys.stdout.write(requirements[name])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
