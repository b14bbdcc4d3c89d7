"""gpus.csv: which GPU sits in which slot of a node, and since when."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo

from warehouse.errors import Finding, bad_rows
from warehouse.evidence import cells
from warehouse.evidence.csv_file import Row, read_rows
from warehouse.model.fleet import Placing
from warehouse.model.time import parse_instant

REQUIRED = ("node", "index", "from")
OPTIONAL = ("uuid", "serial", "model", "site", "why")

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}")
_SHORTENED = re.compile(r"[0-9]+([.,][0-9]+)?[Ee]\+?[0-9]+")


def read_gpus(path: str, zone: ZoneInfo) -> list[Placing]:
    """Reads the file whole; dates are midnights in `zone`.

    Raises:
        BadInput: a line a fault; then nothing may be stored.
    """
    placings: list[Placing] = []
    findings: list[Finding] = []
    for row in read_rows(path, REQUIRED, OPTIONAL):
        placing = _placing(row, zone)
        findings.extend(row.findings)
        if placing is not None:
            placings.append(placing)
    if findings:
        raise bad_rows(findings)
    return placings


def identity(text: str) -> str:
    """Reads a uuid or a serial number: letters and digits, and `-`, `.`, `_` or `/` between them; 100 at most.

    Raises:
        ValueError: also for what a spreadsheet made of a long number.
    """
    if _SHORTENED.fullmatch(text):
        raise ValueError(
            f"'{text[:40]}' is a number that a spreadsheet has shortened; format the column as text and fill it again"
        )
    if not _ID.fullmatch(text):
        raise ValueError(f"'{text[:80]}' is no uuid or serial: letters, digits, '-', '.', '_' and '/', 100 at most")
    return text


def _placing(row: Row, zone: ZoneInfo) -> Placing | None:
    node = row.read("node", cells.name)
    index = row.read("index", cells.natural)
    start_ms = row.read("from", lambda text: parse_instant(text, zone))
    uuid, serial = (row.read_optional(column, identity) for column in ("uuid", "serial"))
    model, why = (row.read_optional(column, cells.short_text) for column in ("model", "why"))
    site = row.read_optional("site", cells.name)
    if model is not None and not row["uuid"] and not row["serial"]:
        row.fault("model", "names a model but no GPU; fill uuid or serial, or leave model blank for an empty slot")
    if row.findings or node is None or index is None or start_ms is None:
        return None
    return Placing(node, index, start_ms, uuid, serial, model, site, why, where=row.where)
