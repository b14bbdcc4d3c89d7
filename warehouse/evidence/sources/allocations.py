"""allocations.csv: which attempt of which job held which slots, from when to when."""

from __future__ import annotations

from collections.abc import Mapping
from zoneinfo import ZoneInfo

from warehouse.errors import Finding
from warehouse.evidence import cells
from warehouse.evidence.csv_file import Row, read_rows
from warehouse.evidence.sources import Source
from warehouse.model.evidence import Allocation
from warehouse.model.statement import Batch, Statement
from warehouse.model.time import parse_instant

REQUIRED = ("job", "attempt", "tenant", "kind", "start", "end", "scope")
OPTIONAL = ("name",)
NOBODY = "none"
KINDS = ("training", "inference", "other")


def read(path: str, zone: ZoneInfo, options: Mapping[str, object]) -> Batch:
    """Reads the file whole; a blank end is a job that still runs."""
    statements: list[Statement] = []
    findings: list[Finding] = []
    rows = 0
    for row in read_rows(path, REQUIRED, OPTIONAL):
        rows += 1
        said = _allocation(row, zone)
        findings.extend(row.findings)
        if said is not None:
            statements.append(Statement(row.where, said))
    return Batch(tuple(statements), rows, refused=tuple(map(str, findings)))


def _holder(text: str) -> str:
    if text == NOBODY:
        raise ValueError(f"'{NOBODY}' is how reports call time that nobody held; give it another name")
    return cells.short_text(text)


def _kind(text: str) -> str:
    if text not in KINDS:
        raise ValueError(f"'{text[:40]}' is no kind; known are {', '.join(KINDS)}")
    return text


def _allocation(row: Row, zone: ZoneInfo) -> Allocation | None:
    job, tenant = (row.read(column, _holder) for column in ("job", "tenant"))
    scope = row.read("scope", cells.short_text)
    attempt = row.read("attempt", cells.natural)
    kind = row.read("kind", _kind)
    start = row.read("start", lambda text: parse_instant(text, zone))
    end = row.read_optional("end", lambda text: parse_instant(text, zone))
    name = row.read_optional("name", cells.short_text)
    if start is not None and end is not None and end < start:
        row.fault("end", f"{row['end']} is before the start {row['start']}; swap them or mend one")
    if row.findings or attempt is None or start is None:
        return None
    assert job and tenant and scope and kind
    return Allocation(job, attempt, tenant, kind, start, end, scope, (), name)


SOURCE = Source("allocations", "allocations.csv: who held which GPUs", read)
