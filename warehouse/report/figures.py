"""How figures are written for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from warehouse.model.time import MS_PER_MINUTE


def minutes(gpu_ms: int) -> str:
    """Gives GPU-milliseconds as GPU-minutes with thousands separators, three decimals only where they are needed."""
    value = Decimal(gpu_ms) / MS_PER_MINUTE
    return f"{value:,.0f}" if gpu_ms % MS_PER_MINUTE == 0 else f"{value:,.3f}"


def percent(ratio: str | None, digits: int = 2) -> str:
    """Gives a ratio as a percentage, or a dash where there is none."""
    return "-" if ratio is None else f"{Decimal(ratio) * 100:.{digits}f} %"


def money(amount: str | None, currency: str | None) -> str:
    """Gives an amount with its currency, or `unpriced`."""
    return "unpriced" if amount is None or currency is None else f"{Decimal(amount):,} {currency}"


def cost(row: Mapping[str, Any], currency: str | None) -> str:
    """Gives what a row of an answer costs; several currencies stand beside each other: `12.00 EUR + 3.00 USD`."""
    if "costs" in row:
        return " + ".join(money(amount, name) for name, amount in row["costs"].items()) or "unpriced"
    return money(row["cost_of_loss"], currency)


def cost_columns(currencies: Sequence[str]) -> list[str]:
    """Gives the columns of a table for programs: one for each currency where there are several."""
    return [f"cost_of_loss_{name}" for name in currencies] if len(currencies) > 1 else ["cost_of_loss"]


def cost_cells(row: Mapping[str, Any], currencies: Sequence[str]) -> list[str | None]:
    """Gives the cells of `cost_columns`; None where a row has no price."""
    return [row["costs"].get(name) for name in currencies] if len(currencies) > 1 else [row["cost_of_loss"]]
