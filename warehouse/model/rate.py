"""What a GPU-hour costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple


class RateLine(NamedTuple):
    """What has one price at a time: a model on a card, in one currency, of one contract (None: of any, and of none)."""

    card: str
    model: str
    contract: str | None
    currency: str

    def __str__(self) -> str:
        contract = "" if self.contract is None else f", contract {self.contract}"
        return f"card {self.card}, {self.model}{contract}, {self.currency}"


@dataclass(frozen=True, slots=True)
class RateSpec:
    """A price per GPU-hour of a model on a card, over [start, end); `end_ms` None means until further notice.

    With a contract it prices the GPUs of that contract alone, and goes before one without. `basis` says in a word what
    kind of price it is (list, contracted, effective, power, opportunity), and picks none; `id` is that of the stored
    row.
    """

    card: str
    model: str
    currency: str
    per_gpu_hour: Decimal
    start_ms: int
    end_ms: int | None = None
    contract: str | None = None
    basis: str | None = None
    id: int | None = field(default=None, compare=False)

    @property
    def line(self) -> RateLine:
        """Gives the line that this is a price of."""
        return RateLine(self.card, self.model, self.contract, self.currency)

    def overlaps(self, other: RateSpec) -> bool:
        """Tells whether both hold at some instant."""
        before = self.end_ms is not None and self.end_ms <= other.start_ms
        after = other.end_ms is not None and other.end_ms <= self.start_ms
        return not before and not after
