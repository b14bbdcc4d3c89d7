"""rates.csv: what a GPU-hour of a model costs, on which card, from when to when."""

from __future__ import annotations

from collections.abc import Sequence
from zoneinfo import ZoneInfo

from warehouse.errors import Finding, bad_rows
from warehouse.evidence import cells
from warehouse.evidence.csv_file import Row, read_rows
from warehouse.model.money import is_currency
from warehouse.model.rate import RateSpec
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
    contract, basis = (row.read_optional(column, cells.short_text) for column in ("contract", "basis"))
    if start is not None and end is not None and end <= start:
        row.fault("effective_to", "is not after effective_from; swap them or leave it blank")
    if row.findings or price is None or start is None:
        return None
    assert card and model and currency
    return RateSpec(card, model, currency, price, start, end, contract, basis)


def _clashes(specs: Sequence[tuple[Row, RateSpec]]) -> list[Finding]:
    """One price at a time for a model on a card, one currency for a card."""
    findings = []
    lines: dict[tuple[str, str], list[tuple[RateSpec, int]]] = {}
    currencies: dict[str, str] = {}
    for row, spec in specs:
        for other, line in lines.setdefault((spec.card, spec.model), []):
            if spec.overlaps(other) and spec != other:
                findings.append(
                    Finding(
                        f"{row.where}, column effective_from",
                        f"overlaps the rate of line {line} for {spec.model} on card {spec.card}; end one first",
                    )
                )
        lines[spec.card, spec.model].append((spec, row.line))
        if currencies.setdefault(spec.card, spec.currency) != spec.currency:
            findings.append(
                Finding(
                    f"{row.where}, column currency",
                    f"{spec.currency}, but card {spec.card} is in {currencies[spec.card]}; one card, one currency",
                )
            )
    return findings
