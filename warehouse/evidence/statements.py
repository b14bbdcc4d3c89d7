"""What importers of CSV statements share: one loop over the rows, one reading of a span."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from zoneinfo import ZoneInfo

from warehouse.errors import Finding
from warehouse.evidence import cells
from warehouse.evidence.csv_file import Row, read_rows
from warehouse.model.evidence import Allocation, Evidence
from warehouse.model.plan import Plan
from warehouse.model.statement import Batch, Statement
from warehouse.model.time import parse_instant

# How reports call time that no job and no tenant held.
NOBODY = "none"


def read_statements(
    path: str,
    required: Sequence[str],
    optional: Sequence[str],
    parse: Callable[[Row], Evidence | Allocation | Plan | None],
) -> Batch:
    """Reads a file whole: the good rows as statements, the others as the reasons why they are refused.

    Args:
        path: the file, `-` for standard input.
        required: columns that must be there.
        optional: columns that may be.
        parse: gives what a row says, or None where it noted faults on the row.
    """
    statements: list[Statement] = []
    findings: list[Finding] = []
    rows = 0
    for row in read_rows(path, required, optional):
        rows += 1
        said = parse(row)
        findings.extend(row.findings)
        if said is not None:
            statements.append(Statement(row.where, said))
    return Batch(tuple(statements), rows, refused=tuple(map(str, findings)))


def read_span(row: Row, zone: ZoneInfo) -> tuple[int | None, int | None]:
    """Gives the columns start and end in milliseconds; a blank end is still open. Faults are noted on the row."""
    start = row.read("start", lambda text: parse_instant(text, zone))
    end = row.read_optional("end", lambda text: parse_instant(text, zone))
    if start is not None and end is not None and end < start:
        row.fault("end", f"{row['end']} is before the start {row['start']}; swap them or mend one")
    return start, end


def holder(text: str) -> str:
    """Reads the name of a job or a tenant."""
    if text == NOBODY:
        raise ValueError(f"'{NOBODY}' is how reports call time that nobody held; give it another name")
    return cells.short_text(text)
