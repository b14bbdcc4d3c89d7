"""allocations.csv: which attempt of which job held which slots, from when to when, and which share of each."""

from __future__ import annotations

from collections.abc import Mapping
from zoneinfo import ZoneInfo

from warehouse.evidence import cells
from warehouse.evidence.csv_file import Row
from warehouse.evidence.sources import Source
from warehouse.evidence.statements import holder, read_span, read_statements
from warehouse.model.evidence import Allocation
from warehouse.model.state import PPM
from warehouse.model.statement import Batch

REQUIRED = ("job", "attempt", "tenant", "kind", "start", "end", "scope")
OPTIONAL = ("name", "share")
KINDS = ("training", "inference", "other")


def read(path: str, zone: ZoneInfo, options: Mapping[str, object]) -> Batch:
    """Reads the file whole; a blank end is a job that still runs."""
    return read_statements(path, REQUIRED, OPTIONAL, lambda row: _allocation(row, zone))


def _kind(text: str) -> str:
    if text not in KINDS:
        raise ValueError(f"'{text[:40]}' is no kind; known are {', '.join(KINDS)}")
    return text


def _share(text: str) -> int | None:
    """Reads the part of each GPU that is held, in parts per million; None is the whole."""
    try:
        ppm = cells.lost_ppm(text)
    except ValueError as exc:
        raise ValueError(f"{exc}; write a share such as 0.25, and leave the cell blank for whole GPUs") from None
    if not ppm:
        raise ValueError("0 is no share; leave the row out, or the cell blank for whole GPUs")
    return None if ppm == PPM else ppm


def _allocation(row: Row, zone: ZoneInfo) -> Allocation | None:
    job, tenant = (row.read(column, holder) for column in ("job", "tenant"))
    scope = row.read("scope", cells.short_text)
    attempt = row.read("attempt", cells.natural)
    kind = row.read("kind", _kind)
    start, end = read_span(row, zone)
    name = row.read_optional("name", cells.short_text)
    share_ppm = row.read_optional("share", _share)
    if row.findings or attempt is None or start is None:
        return None
    assert job and tenant and scope and kind
    return Allocation(job, attempt, tenant, kind, start, end, scope, (), name, share_ppm=share_ppm)


SOURCE = Source("allocations", "allocations.csv: who held which GPUs", read)
