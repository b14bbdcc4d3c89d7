"""Import sources, one file each: a module here with a constant `SOURCE` is a new `gpu-minutes import NAME`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from zoneinfo import ZoneInfo

from warehouse.model.statement import Batch


@dataclass(frozen=True, slots=True)
class Option:
    """A flag of one source: `parse` raises ValueError with a reason fit to print."""

    flag: str
    parse: Callable[[str], object]
    default: str
    help: str

    @property
    def name(self) -> str:
        """Gives the key under which `read` finds the value."""
        return self.flag.removeprefix("--").replace("-", "_")


@dataclass(frozen=True, slots=True)
class Source:
    """One kind of file. `read(path, zone, options)` gives a batch with the rows that it refused, each with a reason.

    It raises BadInput for a file that cannot be read as a whole.

    `zone` is where dates without a time are midnight.
    """

    name: str
    summary: str
    read: Callable[[str, ZoneInfo, Mapping[str, object]], Batch]
    options: tuple[Option, ...] = ()


@cache
def load_sources() -> dict[str, Source]:
    """Gives every source by name, found by scanning this folder in sorted order."""
    found = {}
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda m: m.name):
        source: Source = importlib.import_module(f"{__name__}.{module.name}").SOURCE
        found[source.name] = source
    return found
