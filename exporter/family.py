"""What a metric family is: name, kind, meaning, labels and the span of possible values. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

PREFIX: Final = "gpuminutes_"

Kind = Literal["gauge", "counter", "flag", "info"]
"""gauge and counter as Prometheus means them; flag is a gauge of 0 or 1; info is a gauge that is always 1."""

GPU_LABELS: Final = ("uuid", "slot")
UNITS: Final = ("bytes_per_second", "seconds", "bytes", "ratio", "watts", "celsius", "hertz", "joules")

Span = tuple[float, float]
RATIO: Final[Span] = (0.0, 1.0)
FLAG: Final[Span] = (0.0, 1.0)
COUNT: Final[Span] = (0.0, 2.0**62)
CODE: Final[Span] = (0.0, 255.0)
WATTS: Final[Span] = (0.0, 20_000.0)
CELSIUS: Final[Span] = (-200.0, 200.0)
HERTZ: Final[Span] = (0.0, 20e9)
BOARD_BYTES: Final[Span] = (0.0, 2.0**50)


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family.

    Attributes:
        name: full name, unit and `_total` included.
        kind: see `Kind`.
        help: one sentence for the `# HELP` line.
        labels: label names, in the order in which values are given.
        valid: lowest and highest possible value, both included; a value outside is dropped and counted.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    valid: Span | None = None

    @property
    def field(self) -> str:
        """The name without prefix: the value of the `field` label of `FIELD_UNAVAILABLE`."""
        return self.name.removeprefix(PREFIX)

    @property
    def unit(self) -> str:
        """Base unit, which ends the name ("seconds", "bytes", ...); "" for a count, flag, code or info."""
        base = self.name.removesuffix("_total")
        return next((unit for unit in UNITS if base.endswith("_" + unit)), "")

    @property
    def type(self) -> Literal["gauge", "counter"]:
        """What the `# TYPE` line says."""
        return "counter" if self.kind == "counter" else "gauge"

    @property
    def per_gpu(self) -> bool:
        """True when the family carries `uuid` and `slot`."""
        return self.labels[:2] == GPU_LABELS


def node(name: str, kind: Kind, text: str, *labels: str, valid: Span | None = None) -> Family:
    """A family of the node or of the exporter itself."""
    return Family(PREFIX + name, kind, text, labels, valid)


def gpu(name: str, kind: Kind, text: str, *labels: str, valid: Span | None = None) -> Family:
    """A family of a board: `uuid` and `slot` stand before its own labels."""
    return Family(PREFIX + "gpu_" + name, kind, text, GPU_LABELS + labels, valid)


def mig(name: str, kind: Kind, text: str, *labels: str, valid: Span | None = None) -> Family:
    """A family of a MIG instance: `uuid` and `slot` of its board, then `gi`, its GPU instance."""
    return Family(PREFIX + "mig_" + name, kind, text, (*GPU_LABELS, "gi", *labels), valid)
