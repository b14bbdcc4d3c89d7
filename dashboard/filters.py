"""Which incidents a reader wants, as the address says it. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

STATUSES = ("open", "closed")
_LONGEST = 80
_PAGE = re.compile(r"[1-9][0-9]{0,5}")


@dataclass(frozen=True, slots=True)
class Filter:
    """None stands for all; `page` counts from 1."""

    cause: str | None = None
    status: str | None = None
    text: str | None = None
    node: str | None = None
    page: int = 1

    def parameters(self) -> dict[str, str]:
        """Gives the parameters of the address; `read` takes them back to the same value."""
        found = {"cause": self.cause, "status": self.status, "text": self.text, "node": self.node}
        given = {name: value for name, value in found.items() if value is not None}
        return given if self.page == 1 else {**given, "page": str(self.page)}


def read(parameters: Mapping[str, str], causes: Collection[str]) -> tuple[Filter, list[str]]:
    """Reads a filter; a part that is wrong is left out and named in a sentence fit to show."""
    faults = []
    cause = parameters.get("cause") or None
    if cause is not None and cause not in causes:
        faults.append(f"No incident of this window has the cause '{cause[:_LONGEST]}'; all causes are shown.")
        cause = None
    status = parameters.get("status") or None
    if status is not None and status not in STATUSES:
        faults.append(f"'{status[:_LONGEST]}' is no status; all are shown. Known: {', '.join(STATUSES)}.")
        status = None
    page = parameters.get("page") or "1"
    if not _PAGE.fullmatch(page):
        faults.append(f"'{page[:_LONGEST]}' is no page number; the first page is shown.")
        page = "1"
    text, node = (((parameters.get(name) or "")[:_LONGEST].strip() or None) for name in ("text", "node"))
    return Filter(cause, status, text, node, int(page)), faults


def apply(incidents: Sequence[dict[str, Any]], asked: Filter) -> list[dict[str, Any]]:
    """Gives the incidents that pass, in the order they came in: the costliest first."""
    return [incident for incident in incidents if _passes(incident, asked)]


def _passes(incident: dict[str, Any], asked: Filter) -> bool:
    words = f"{incident['ref']} {incident['title']} {incident['cause']} {incident['owner']}".casefold()
    return (
        (asked.cause is None or incident["cause"] == asked.cause)
        and (asked.status is None or incident["status"] == asked.status)
        and (asked.text is None or asked.text.casefold() in words)
        and (asked.node is None or any(asked.node.casefold() in name.casefold() for name in incident["nodes"]))
    )
