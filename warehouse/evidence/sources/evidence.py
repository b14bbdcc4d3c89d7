"""evidence.csv: any source's word about any scope, one row each."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from zoneinfo import ZoneInfo

from warehouse.causes import load_causes
from warehouse.evidence import cells
from warehouse.evidence.csv_file import Row
from warehouse.evidence.sources import Source
from warehouse.evidence.statements import holder, read_span, read_statements
from warehouse.model.evidence import Evidence
from warehouse.model.plan import SOURCE as SOURCE_OF_PLANS
from warehouse.model.statement import Batch

REQUIRED = ("id", "source", "start", "end", "scope", "state")
OPTIONAL = ("cause", "lost", "detail", "job")


def read(path: str, zone: ZoneInfo, options: Mapping[str, object]) -> Batch:
    """Reads the file whole; a blank end is still open, a blank loss is the state's default."""
    return read_statements(path, REQUIRED, OPTIONAL, lambda row: _evidence(row, zone))


def known_cause(text: str) -> str:
    """Reads the code of a cause of the catalogue."""
    if text not in load_causes():
        near = difflib.get_close_matches(text, load_causes(), n=1)
        hint = f"; did you mean {near[0]}?" if near else "; docs/causes.md lists them"
        raise ValueError(f"'{text[:60]}' is no cause of the catalogue{hint}")
    return text


def _source(text: str) -> str:
    if text == SOURCE_OF_PLANS:
        raise ValueError(f"'{text}' is the name of declared windows; import them with: gpu-minutes import maintenance")
    return cells.short_text(text)


def _evidence(row: Row, zone: ZoneInfo) -> Evidence | None:
    key, source = row.read("id", cells.short_text), row.read("source", _source)
    start, end = read_span(row, zone)
    scope = row.read("scope", cells.short_text)
    state = row.read("state", cells.state)
    cause = row.read_optional("cause", known_cause)
    lost = row.read_optional("lost", cells.lost_ppm)
    detail = row.read_optional("detail", cells.short_text)
    job = row.read_optional("job", holder)
    if state is not None and lost is not None and (reason := cells.loss_fits(state, lost)):
        row.fault("lost", reason)
    if row.findings or start is None or state is None:
        return None
    assert key and source and scope
    return Evidence(source, key, start, end, scope, (), state, cause, lost, detail, job)


SOURCE = Source("evidence", "evidence.csv: what any source says of any scope", read)
