"""What a row of an alias table is: a series of another exporter, and what it means in our words.

The tables are the files of `warehouse/signals/dialects`. They are data: `translate` reads them for a page, `promql`
writes them as a query, and both must say the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal, get_args

from exporter.family import Family, Span

Reason = Literal[
    "bad_label",
    "blank",
    "no_gpu",
    "not_monotone",
    "other_level",
    "other_meaning",
    "out_of_range",
    "text_as_number",
    "undecided_scale",
]
"""Why a sample of a known series is not served: a closed set."""

REASONS: Final = frozenset(get_args(Reason))

ADVICE: Final[Mapping[Reason, str]] = MappingProxyType(
    {
        "bad_label": "look at relabelling rules and the exporter's version: a label that says what is counted is gone",
        "blank": "nothing to do: the exporter wrote its stand-in for a value that it does not have",
        "no_gpu": "keep the labels that name the GPU when relabelling",
        "not_monotone": "use the exporter of GPU Minutes on this node, or leave this family out",
        "other_level": "nothing to do: the board's own row is read where there is one",
        "other_meaning": "nothing to do: a look-alike is not taken for the real thing",
        "out_of_range": "look at this GPU and its driver: the number is impossible",
        "text_as_number": "nothing to do: the exporter took the digits out of a text",
        "undecided_scale": "have the exporter serve DCGM_FI_DEV_GPU_UTIL or the profiling fields, whose scale is known",
    }
)
"""What a user can do about each reason."""

EventKind = Literal["xid", "clock_event"]

MISSING_TEXTS: Final = frozenset(
    {
        "",
        # nvidia-smi, in a label of nvidia_gpu_exporter.
        "N/A",
        "[N/A]",
        "[Not Supported]",
        "[Insufficient Permissions]",
        "[Unknown Error]",
        # dcgm-exporter, in a label made of a field without a text (NVIDIA/dcgm-exporter issue 488).
        "ERROR - FAILED TO CONVERT TO STRING",
    }
)
"""Label values that say "there is none"; read as the empty text, which Prometheus reads as a missing label."""


@dataclass(frozen=True, slots=True)
class From:
    """A label value of ours that is copied from a label of the foreign series.

    Attributes:
        label: name of the foreign label.
        prefix: put before a value that does not begin with it.
        needed: True where a sample without it says nothing and is refused (`bad_label`).
    """

    label: str
    prefix: str = ""
    needed: bool = False


@dataclass(frozen=True, slots=True)
class Alias:
    """A foreign series that is a family of ours in another spelling or unit.

    Attributes:
        name: foreign name, as it stands on the page.
        family: family of ours.
        labels: our labels after `uuid` and `slot` (of a node family: all of them), constant or copied.
        times, per: whole numbers, one of them 1, that turn the foreign unit into ours: one rounding, the same in
            Python and in Prometheus.
        unit: the foreign unit, and where that is written; needed when the number changes.
        per_instance: True where a row with a MIG instance is a fact of that instance, not of the board.
        mig: the family of such a row; its labels are `gi`, then `labels`. None: such a row is refused.
        valid: possible values in our unit, where they are fewer than the family's.
        percent_above: set where the series may be a ratio or a percentage: it is a percentage if any value of its
            target exceeds this number, and undecided until then.
    """

    name: str
    family: Family
    labels: tuple[str | From, ...] = ()
    times: int = 1
    per: int = 1
    unit: str = ""
    per_instance: bool = False
    mig: Family | None = None
    valid: Span | None = None
    percent_above: float | None = None

    @property
    def span(self) -> Span | None:
        """Gives the possible values in our unit, both ends included; None where every finite one is."""
        return self.valid if self.valid is not None else self.family.valid


@dataclass(frozen=True, slots=True)
class Mask:
    """A bitmask that becomes one 0/1 row for each word; a bit without a word becomes `bit_N`, when set.

    Attributes:
        name: foreign name.
        family: family of ours, with one label of its own.
        words: label values by bit, from bit 0.
    """

    name: str
    family: Family
    words: tuple[str, ...]


MASK_BITS: Final = 32
"""Bits of a mask that are read; NVML defines nine of them (nvml.h, nvmlClocksEventReasons). More is no mask."""


@dataclass(frozen=True, slots=True)
class EventGauge:
    """A gauge of events, evidence only: it is no counter, whatever its name says.

    Attributes:
        name: foreign name.
        kind: what happened.
        code: label that says which; None where the value itself is the last code seen.
        window: label with the length of the window that is counted, in milliseconds.
        why: why it is no counter.
    """

    name: str
    kind: EventKind
    code: str | None
    window: str | None
    why: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A foreign series that looks like something of ours and is not.

    Attributes:
        name: foreign name.
        reason: see `Reason`.
        why: what it is instead, with the source.
    """

    name: str
    reason: Reason
    why: str


Row = Alias | Mask | EventGauge | Refused


@dataclass(frozen=True, slots=True)
class Workload:
    """Labels that name the workload of a GPU, on every series of the exporter.

    Attributes:
        kind: our word for the scheduler.
        key: our label that must have a value.
        labels: per label of ours the foreign labels to look at, in order.
    """

    kind: str
    key: str
    labels: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one exporter speaks.

    Attributes:
        name: name of its file.
        title: what people call it.
        prefix: how all its names begin.
        rows: its table; where two rows give the same sample of ours, the first that has a value wins.
        uuid: labels with the GPU's UUID, in order.
        uuid_prefix: put before a UUID that lacks it.
        uuid_unknown: what it writes for a GPU that it cannot name.
        slot: label with the PCI address.
        slot_info: series that carries `slot` for the UUID, where the other series do not.
        index: label with a number of the GPU, used where there is no UUID.
        instance: label with the MIG instance on series of the board.
        aside: labels of series about something else than a GPU, such as one link.
        blanks: True where the twelve DCGM blanks may stand as numbers.
        workloads: see `Workload`.
    """

    name: str
    title: str
    prefix: str
    rows: tuple[Row, ...]
    uuid: tuple[str, ...] = ("uuid",)
    uuid_prefix: str = ""
    uuid_unknown: str = ""
    slot: str = ""
    slot_info: str = ""
    index: str = ""
    instance: str = ""
    aside: tuple[str, ...] = ()
    blanks: bool = False
    workloads: tuple[Workload, ...] = field(default=())


NODE_LABELS: Final = ("node", "Hostname", "hostname")
"""Labels that name the node, in order: the scrape target's, then dcgm-exporter's before and after its release 4.8.2
(NVIDIA/dcgm-exporter pull request 655)."""

NO_UUID: Final = "index:"
"""Begins what stands for a missing UUID: the GPU's number on its node. Real UUIDs begin with `GPU-`."""
