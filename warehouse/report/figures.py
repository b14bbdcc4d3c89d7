"""How figures are written for people."""

from __future__ import annotations

from decimal import Decimal

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
