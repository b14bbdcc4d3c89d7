"""evidence.csv: any source's word about any scope, one row each."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from zoneinfo import ZoneInfo

from warehouse.causes import load_causes
from warehouse.errors import Finding
from warehouse.evidence import cells
from warehouse.evidence.csv_file import Row, read_rows
from warehouse.evidence.sources import Source
from warehouse.model.evidence import Evidence
from warehouse.model.statement import Batch, Statement
from warehouse.model.time import parse_instant

REQUIRED = ("id", "source", "start", "end", "scope", "state")
NOBODY = "none"
OPTIONAL = ("cause", "lost", "detail", "job")


def read(path: str, zone: ZoneInfo, options: Mapping[str, object]) -> Batch:
    """Reads the file whole; a blank end is still open, a blank loss is the state's default."""
    statements: list[Statement] = []
    findings: list[Finding] = []
    rows = 0
    for row in read_rows(path, REQUIRED, OPTIONAL):
        rows += 1
        said = _evidence(row, zone)
        findings.extend(row.findings)
        if said is not None:
            statements.append(Statement(row.where, said))
    return Batch(tuple(statements), rows, refused=tuple(map(str, findings)))


def known_cause(text: str) -> str:
    """Reads the code of a cause of the catalogue."""
    if text not in load_causes():
        near = difflib.get_close_matches(text, load_causes(), n=1)
        hint = f"; did you mean {near[0]}?" if near else "; docs/causes.md lists them"
        raise ValueError(f"'{text[:60]}' is no cause of the catalogue{hint}")
    return text


def _evidence(row: Row, zone: ZoneInfo) -> Evidence | None:
    key = row.read("id", cells.short_text)
    source = row.read("source", cells.short_text)
    start = row.read("start", lambda text: parse_instant(text, zone))
    end = row.read_optional("end", lambda text: parse_instant(text, zone))
    scope = row.read("scope", cells.short_text)
    state = row.read("state", cells.state)
    cause = row.read_optional("cause", known_cause)
    lost = row.read_optional("lost", cells.lost_ppm)
    detail, job = (row.read_optional(column, cells.short_text) for column in ("detail", "job"))
    if job == NOBODY:
        row.fault("job", f"'{NOBODY}' is how reports call time that nobody held; leave it blank")
    if start is not None and end is not None and end < start:
        row.fault("end", f"{row['end']} is before the start {row['start']}; swap them or mend one")
    if state is not None and lost is not None and (reason := cells.loss_fits(state, lost)):
        row.fault("lost", reason)
    if row.findings or start is None or state is None:
        return None
    assert key and source and scope
    return Evidence(source, key, start, end, scope, (), state, cause, lost, detail, job)


SOURCE = Source("evidence", "evidence.csv: what any source says of any scope", read)
