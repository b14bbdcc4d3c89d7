"""One incident as text: for a screen, and as a Markdown postmortem cost report."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined

from warehouse.model.time import format_duration, parse_instant
from warehouse.report import figures
from warehouse.report.figures import minutes

_SPECIAL = str.maketrans({letter: "\\" + letter for letter in "\\`*_{}[]<>#|"})

# In a marginal block: the incident's own time is not in it.
_CALLED = {"unplanned": "unplanned, by other incidents"}


def escape(text: object) -> str:
    """Gives text with Markdown's special letters disarmed: names and details come from outside."""
    return str(text).translate(_SPECIAL).replace("\n", " ")


def report(incident: Mapping[str, Any], command: str, engine: str) -> str:
    """Gives the postmortem cost report of one incident; the same incident gives the same bytes."""
    return _render("incident.md.j2", incident, command, engine)


def screen(incident: Mapping[str, Any]) -> str:
    """Gives one incident for a terminal."""
    return _render("incident.txt.j2", incident, "", "").rstrip("\n")


def _render(template: str, incident: Mapping[str, Any], command: str, engine: str) -> str:
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, autoescape=False
    )
    environment.filters |= {"minutes": minutes, "e": escape, "length": _length}
    source = files("warehouse.report").joinpath("templates", template).read_text(encoding="utf-8")
    currency = incident["currency"]
    return environment.from_string(source).render(
        i=incident,
        command=command,
        engine=engine,
        amount=lambda row: figures.money(row["amount"], row["currency"]),
        called=lambda name: _CALLED.get(name, name),
        cost=lambda row: figures.cost(row, row.get("currency", currency)),
        wall=lambda row: _length(parse_instant(row["end"]) - parse_instant(row["start"])),
    )


def _length(length_ms: int | None) -> str:
    return "still open" if length_ms is None else format_duration(length_ms)
