"""rates.csv: what a GPU-hour of a model costs, on which card, by which contract, from when to when."""

from __future__ import annotations

from collections.abc import Sequence
from zoneinfo import ZoneInfo

from warehouse.errors import Finding, bad_rows
from warehouse.evidence import cells
from warehouse.evidence.csv_file import Row, read_rows
from warehouse.model.money import is_currency
from warehouse.model.rate import RateLine, RateSpec
from warehouse.model.time import parse_instant

REQUIRED = ("card", "model", "currency", "per_gpu_hour", "effective_from")
OPTIONAL = ("effective_to", "contract", "basis")


def read_rates(path: str, zone: ZoneInfo) -> list[RateSpec]:
    """Reads the file whole; dates are midnights in `zone`.

    Raises:
        BadInput: a line a fault; then nothing may be stored.
    """
    specs: list[tuple[Row, RateSpec]] = []
    findings: list[Finding] = []
    for row in read_rows(path, REQUIRED, OPTIONAL):
        spec = _spec(row, zone)
        findings.extend(row.findings)
        if spec is not None:
            specs.append((row, spec))
    findings.extend(_clashes(specs))
    if findings:
        raise bad_rows(findings)
    return [spec for _, spec in specs]


def _card(text: str) -> str:
    if "`" in text:
        raise ValueError("a card's name holds no backtick: it is written into commands")
    return cells.short_text(text)


def _currency(text: str) -> str:
    if not is_currency(text):
        raise ValueError(f"'{text[:20]}' is no ISO 4217 currency such as USD")
    return text


def _spec(row: Row, zone: ZoneInfo) -> RateSpec | None:
    card = row.read("card", _card)
    model = row.read("model", cells.short_text)
    currency = row.read("currency", _currency)
    price = row.read("per_gpu_hour", cells.price)
    start = row.read("effective_from", lambda text: parse_instant(text, zone))
    end = row.read_optional("effective_to", lambda text: parse_instant(text, zone))
    contract = row.read_optional("contract", cells.short_text)
    basis = row.read_optional("basis", cells.short_text)
    if start is not None and end is not None and end <= start:
        row.fault("effective_to", "is not after effective_from; swap them or leave it blank")
    if row.findings or price is None or start is None:
        return None
    assert card and model and currency
    return RateSpec(card, model, currency, price, start, end, contract, basis)


def _clashes(specs: Sequence[tuple[Row, RateSpec]]) -> list[Finding]:
    """One price at a time for a line: a model on a card, in one currency, of one contract."""
    findings = []
    lines: dict[RateLine, list[tuple[RateSpec, int]]] = {}
    for row, spec in specs:
        for other, number in lines.setdefault(spec.line, []):
            if spec.overlaps(other) and spec != other:
                reason = f"overlaps the rate of line {number} for {spec.line}; end one where the other begins"
                findings.append(Finding(f"{row.where}, column effective_from", reason))
        lines[spec.line].append((spec, row.line))
    return findings
