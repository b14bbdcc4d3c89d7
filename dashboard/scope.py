"""What a page shows, as its address says it: window, site, price card and revision, in one frozen value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from warehouse.model.time import format_instant, parse_instant

NAMES = ("from", "to", "card", "rev", "site")
_LONGEST = 80
_DIGITS = re.compile(r"[1-9][0-9]{0,17}")


class BadScope(ValueError):
    """The address holds something that is no scope; each fault is a sentence fit to show."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


@dataclass(frozen=True, slots=True)
class Scope:
    """None stands for the default: all that is booked, the usual card, the newest revision, all sites.

    `start_ms` and `end_ms` bound a half-open window.
    """

    start_ms: int | None = None
    end_ms: int | None = None
    card: str | None = None
    rev: int | None = None
    site: str | None = None

    def parameters(self) -> dict[str, str]:
        """Gives the parameters of the address; `read` takes them back to the same value."""
        found = {
            "from": None if self.start_ms is None else format_instant(self.start_ms),
            "to": None if self.end_ms is None else format_instant(self.end_ms),
            "card": self.card,
            "rev": None if self.rev is None else str(self.rev),
            "site": self.site,
        }
        return {name: value for name, value in found.items() if value is not None}

    def url(self, path: str, **more: str) -> str:
        """Gives the address of a page in this scope."""
        query = urlencode({**more, **self.parameters()})
        return f"{path}?{query}" if query else path


def read(parameters: Mapping[str, str]) -> Scope:
    """Reads the scope of an address; parameters of other kinds are left alone, blank ones count as absent.

    Raises:
        BadScope: naming every parameter that is wrong, and why.
    """
    faults: list[str] = []
    start_ms = _time(parameters, "from", faults)
    end_ms = _time(parameters, "to", faults)
    if start_ms is not None and end_ms is not None and end_ms <= start_ms:
        faults.append("'to' is not after 'from'")
    rev = parameters.get("rev") or None
    if rev is not None and not _DIGITS.fullmatch(rev):
        faults.append(f"'rev' is no revision number: {_cut(rev)}")
    card = _name(parameters, "card", "a rate card", faults)
    site = _name(parameters, "site", "a site", faults)
    if faults:
        raise BadScope(faults)
    return Scope(start_ms, end_ms, card, None if rev is None else int(rev), site)


def _name(parameters: Mapping[str, str], name: str, what: str, faults: list[str]) -> str | None:
    text = parameters.get(name) or None
    if text is not None and (len(text) > _LONGEST or not text.isprintable()):
        faults.append(f"'{name}' is no name of {what}: {_cut(text)}")
    return text


def _time(parameters: Mapping[str, str], name: str, faults: list[str]) -> int | None:
    text = parameters.get(name)
    if not text:
        return None
    try:
        return parse_instant(text[:_LONGEST])
    except ValueError as exc:
        faults.append(f"'{name}': {exc}")
        return None


def incident_id(text: str | None) -> int | None:
    """Reads an incident's number, with or without INC- before it; None for anything else."""
    digits = (text or "").strip().upper().removeprefix("INC-")
    return int(digits) if _DIGITS.fullmatch(digits) else None


def _cut(text: str) -> str:
    return repr(text[:40]).strip("'") + ("…" if len(text) > 40 else "")
