"""fleet.csv: which nodes a site has, where they stand, how many GPUs of which model, from when to when."""

from __future__ import annotations

from collections.abc import Sequence
from zoneinfo import ZoneInfo

from warehouse.errors import Finding, bad_rows
from warehouse.evidence import cells
from warehouse.evidence.csv_file import Row, read_rows
from warehouse.model.fleet import NodeSpec
from warehouse.model.money import is_currency
from warehouse.model.time import parse_instant

REQUIRED = ("site", "hall", "rack", "node", "gpus", "model", "commissioned")
OPTIONAL = ("retired", "power_domain", "leaf_switch", "blast_domain", "timezone", "state", "contract", "currency")


def read_fleet(path: str) -> list[NodeSpec]:
    """Reads the file whole.

    Raises:
        BadInput: a line a fault; then nothing may be stored.
    """
    specs: list[tuple[Row, NodeSpec]] = []
    findings: list[Finding] = []
    for row in read_rows(path, REQUIRED, OPTIONAL):
        spec = _spec(row)
        findings.extend(row.findings)
        if spec is not None:
            specs.append((row, spec))
    findings.extend(_overlaps(specs))
    if findings:
        raise bad_rows(findings)
    return [spec for _, spec in specs]


def zone(text: str) -> ZoneInfo:
    """Reads an IANA time zone name such as Europe/Berlin."""
    try:
        return ZoneInfo(text)
    except (ValueError, OSError, KeyError):
        raise ValueError(f"'{text[:60]}' is no IANA time zone such as Europe/Berlin") from None


def currency(text: str) -> str:
    """Reads an ISO 4217 currency such as USD."""
    if not is_currency(text):
        raise ValueError(f"'{text[:20]}' is no ISO 4217 currency such as USD")
    return text


def _spec(row: Row) -> NodeSpec | None:
    timezone = row.read_optional("timezone", zone)
    site, hall, rack, node = (row.read(column, cells.name) for column in ("site", "hall", "rack", "node"))
    gpus = row.read("gpus", cells.positive_count)
    model = row.read("model", cells.short_text)
    commissioned = row.read("commissioned", lambda text: parse_instant(text, timezone))
    retired = row.read_optional("retired", lambda text: parse_instant(text, timezone))
    if commissioned is not None and retired is not None and retired <= commissioned:
        row.fault("retired", "is not after commissioned; swap them or leave it blank")
    if row["state"] not in ("", "stranded"):
        row.fault("state", f"'{row['state'][:40]}' is not known; leave it blank or write stranded")
    extra = {
        column: row.read_optional(column, cells.short_text)
        for column in ("power_domain", "leaf_switch", "blast_domain", "contract")
    }
    money = row.read_optional("currency", currency)
    if row.findings or None in (site, hall, rack, node, gpus, model, commissioned):
        return None
    assert site and hall and rack and node and gpus and model and commissioned is not None
    return NodeSpec(
        site, hall, rack, node, gpus, model, commissioned, retired,
        **extra, timezone=row["timezone"] or None, stranded=row["state"] == "stranded", currency=money,
        where=row.where,
    )  # fmt: skip


def _overlaps(specs: Sequence[tuple[Row, NodeSpec]]) -> list[Finding]:
    """A node may stand in several rows, one after the other; a site has one time zone and one currency."""
    findings = []
    spans: dict[tuple[str, str], list[tuple[int, int | None, int]]] = {}
    zones: dict[str, tuple[str, int]] = {}
    currencies: dict[str, tuple[str, int]] = {}
    for row, spec in specs:
        for start_ms, end_ms, first in spans.setdefault((spec.site, spec.node), []):
            before = end_ms is not None and end_ms <= spec.commissioned_ms
            after = spec.retired_ms is not None and spec.retired_ms <= start_ms
            if not before and not after:
                findings.append(
                    Finding(
                        f"{row.where}, column node",
                        f"the tenure of {spec.node} overlaps the one in line {first}; retire one before the next",
                    )
                )
        spans[spec.site, spec.node].append((spec.commissioned_ms, spec.retired_ms, row.line))
        for column, said, known in (("timezone", spec.timezone, zones), ("currency", spec.currency, currencies)):
            there, line = known.setdefault(spec.site, (said, row.line)) if said else (said, row.line)
            if there != said:
                reason = f"site {spec.site} already has {there} in line {line}; a site has one {column}"
                findings.append(Finding(f"{row.where}, column {column}", reason))
    return findings
