"""Settings: each is declared once, beside what it sets, and is a flag, an environment variable and a key of the file.

An `Option` knows its name, default and how text becomes its value; `Settings` holds what the operator chose. The
sources are merged in `exporter.options` alone, at the start, and the result is passed down.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Option(Generic[T]):
    """One setting.

    Attributes:
        name: dotted name, "collector.nvml.interval"; `--NAME` is its flag.
        default: its value when nobody chose one.
        parse: turns text into a value; raises ValueError with the reason, in words, if it cannot.
        help: what it sets, in a few words.
        metavar: what stands for the value in the help; "" for a switch, which is set by `--NAME` and `--no-NAME`.
        number: whether it may stand as a number in the file; whatever it is, text in quotes will do.
        many: whether its value is a tuple: a flag that may be repeated, a list in the file, words joined by commas.
    """

    name: str
    default: T
    parse: Callable[[str], T]
    help: str
    metavar: str
    number: bool = False
    many: bool = False


class Settings:
    """What the operator chose; an option that nobody set has its default.

    Args:
        chosen: values by option.
    """

    def __init__(self, chosen: Mapping[Option[Any], object] | None = None) -> None:
        self._chosen = dict(chosen or {})

    def __getitem__(self, option: Option[T]) -> T:
        return cast(T, self._chosen.get(option, option.default))


def seconds(name: str, default: float, text: str, lowest: float = 0.1, highest: float = 3600.0) -> Option[float]:
    """A time in seconds; an interval in milliseconds copied as seconds is refused by its span."""

    def parse(value: str) -> float:
        try:
            found = float(value)
        except ValueError:
            found = math.nan
        if not lowest <= found <= highest:
            raise ValueError(f"{value!r} is not a number of seconds between {lowest:g} and {highest:g}")
        return found

    return Option(name, default, parse, text, "SECONDS", number=True)


def whole(name: str, default: int | None, text: str, lowest: int, highest: int) -> Option[int | None]:
    """A whole number."""

    def parse(value: str) -> int:
        if not (value.isascii() and value.isdigit() and lowest <= int(value) <= highest):
            raise ValueError(f"{value!r} is not a whole number between {lowest} and {highest}")
        return int(value)

    return Option(name, default, parse, text, "NUMBER", number=True)


def path(name: str, default: Path, text: str, metavar: str = "DIR") -> Option[Path]:
    """A file or folder that has a default."""
    return Option(name, default, Path, text, metavar)


def optional_path(name: str, text: str, metavar: str = "DIR") -> Option[Path | None]:
    """A file or folder that is not used unless it is named."""
    return Option(name, None, Path, text, metavar)


def word(name: str, default: str, text: str, choices: tuple[str, ...]) -> Option[str]:
    """One of a few words."""

    def parse(value: str) -> str:
        if value not in choices:
            raise ValueError(f"{value!r} is none of {', '.join(choices)}")
        return value

    return Option(name, default, parse, text, "|".join(choices))


def switch(name: str, default: bool, text: str) -> Option[bool]:
    """On or off; in the environment and in the file, the words true and false."""

    def parse(value: str) -> bool:
        if value not in ("true", "false"):
            raise ValueError(f"{value!r} is neither true nor false")
        return value == "true"

    return Option(name, default, parse, text, "")


def nearest(name: str, known: Iterable[str], otherwise: str) -> str:
    """What to do about an unknown name: the known one that looks most like it, or else `otherwise`."""
    found = difflib.get_close_matches(name, list(known), 1)
    return f"did you mean {found[0]}?" if found else otherwise


PROCFS = path("path.procfs", Path("/proc"), "where proc is mounted")
SYSFS = path("path.sysfs", Path("/sys"), "where sys is mounted")
CGROUP = path("path.cgroup", Path("/sys/fs/cgroup"), "where control groups are mounted")
INVENTORY = optional_path(
    "path.inventory", "where the GPUs of this node are remembered; without it, until the exporter stops", "FILE"
)
COMMON: tuple[Option[Any], ...] = (PROCFS, SYSFS, CGROUP, INVENTORY)
"""Options that belong to no collector."""
