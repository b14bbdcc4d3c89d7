"""The sentences of the overview: what the figures say, and what they do not."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from dashboard import format as f
from warehouse.views import CauseLoss

_LITTLE_UNKNOWN = 100  # a hundredth of installed
_UNATTRIBUTED = "unknown/unattributed"


def headline(answer: dict[str, Any], causes: Sequence[CauseLoss]) -> str:
    """Gives the one sentence that a reader in a hurry needs; time that nobody observed is told first."""
    installed, unknown = answer["installed_gpu_ms"], answer["classes"]["unknown"]
    loss = _loss(answer, causes)
    if 2 * unknown > installed:
        return (
            f"{f.share(unknown, installed)} of installed GPU time is unknown: no source says what it did. "
            f"In the {f.share(installed - unknown, installed)} observed, {loss}"
        )
    said = f"Goodput is {f.percent(answer['goodput_of_installed'])} of installed"
    if unknown * _LITTLE_UNKNOWN > installed:
        said += f", with {f.share(unknown, installed)} unknown"
    return f"{said}; {loss}"


def _loss(answer: dict[str, Any], causes: Sequence[CauseLoss]) -> str:
    lost = lost_gpu_ms(answer)
    if not lost:
        return "nothing was lost."
    amount = f.cost(answer, answer["currency"], f.short_money)
    said = f"{f.short_minutes(lost)} GPU-minutes were lost"
    if amount != f.DASH:
        said += f", at a cost of {amount}"
    named = [cause for cause in causes if cause.code not in (None, _UNATTRIBUTED)]
    if not named:
        return f"{said}; no part of it has a known cause."
    largest = max(named, key=lambda cause: cause.lost_gpu_ms)
    return f"{said}. Largest known cause: {largest.title}, {f.share(largest.lost_gpu_ms, lost)} of it."


def lost_gpu_ms(answer: dict[str, Any]) -> int:
    """Gives what `cost_of_loss` prices: unplanned, planned and overhead."""
    classes = answer["classes"]
    return int(classes["unplanned"] + classes["planned"] + classes["overhead"])


def goodput_bound(answer: dict[str, Any]) -> str | None:
    """Says how far goodput may be off since unknown time is counted as not good; None where none is unknown."""
    installed, unknown = answer["installed_gpu_ms"], answer["classes"]["unknown"]
    if not unknown or not installed:
        return None
    most = Decimal(100 * (answer["classes"]["good"] + unknown)) / installed
    return f"lower bound; up to {most:.1f} %"


def availability_bound(answer: dict[str, Any]) -> str | None:
    """Says that availability counts unknown time as available."""
    installed, unknown = answer["installed_gpu_ms"], answer["classes"]["unknown"]
    return f"upper bound; {f.share(unknown, installed)} is unknown" if unknown and installed else None
