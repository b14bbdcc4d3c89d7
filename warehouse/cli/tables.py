"""How answers look: aligned tables for people, CSV that no spreadsheet will execute."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from tabulate import tabulate

from warehouse.report.figures import minutes, money, percent

__all__ = ["csv_text", "minutes", "money", "percent", "table"]

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[int] = ()) -> str:
    """Gives an aligned table; columns whose index is in `right` stand right-aligned."""
    align = ["right" if at in right else "left" for at in range(len(columns))]
    text: str = tabulate(
        rows, headers=columns, tablefmt="simple", colalign=align if rows else None, disable_numparse=True
    )
    return text


def csv_text(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Gives CSV; text that a spreadsheet would run as a formula is quoted with an apostrophe, None is blank."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[_cell(value) for value in row] for row in rows])
    return out.getvalue()


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return "'" + value
    return value
