"""From the samples of one page to ours: exact, in our units, and nothing dropped unseen.

Law: every sample that came in is counted exactly once, as used, refused, event, repeated or unknown. A refusal says
why; a repetition is a row that another row of the page already says (a board's fact on each of its MIG instances or
pods, or a field under two names).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from exporter.family import Family, Span
from exporter.metrics import GPU_WORKLOAD_INFO
from exporter.screen import BLANKS
from warehouse.signals import load_dialects
from warehouse.signals.alias import (
    ADVICE,
    MASK_BITS,
    NO_UUID,
    Alias,
    Dialect,
    EventGauge,
    EventKind,
    Mask,
    Reason,
    Refused,
    Row,
)
from warehouse.signals.page import Raw
from warehouse.signals.who import Gpu, Refuse, copied, node_of, slots_by_uuid, text, who

# As floats the four INT64 blanks are one, 2^63; no reading comes near half of it.
TOO_LARGE = 2.0**62

# Highest value of field 203 that is a percentage and not junk.
MOST_PERCENT = 100.0


class Signal(NamedTuple):
    """One sample in our words: labels in the order of `family.labels`, value in its unit; `node` may be ""."""

    family: Family
    node: str
    labels: tuple[str, ...]
    value: float


class Refusal(NamedTuple):
    """One sample that is not served: its name and labels as they came, and why."""

    name: str
    labels: tuple[tuple[str, str], ...]
    reason: Reason
    why: str

    @property
    def advice(self) -> str:
        """Gives what a user can do about it."""
        return ADVICE[self.reason]


class Candidate(NamedTuple):
    """Evidence of an event, never a count: a value over 0, or one that changed since the last page, is an event.

    Attributes:
        kind: what happened.
        code: which: an XID, or a reason of the clocks; "" where the source does not say.
        node, uuid, slot: where; "" where the source does not say.
        value: events in the window, or the code itself where the source keeps the last one.
        window_ms: length of the window in milliseconds, None for a source that keeps the last code.
        name: series that says it.
    """

    kind: EventKind
    code: str
    node: str
    uuid: str
    slot: str
    value: float
    window_ms: int | None
    name: str


@dataclass(frozen=True, slots=True)
class Translation:
    """What one page says.

    Attributes:
        samples: in order of family, node and labels; each key once.
        refusals: in the order of the page.
        events: see `Candidate`; in order of the page.
        read: samples that came in: the sum of used, refused, event, repeated and unknown ones.
        used: samples of the page that stand in `samples`.
        repeated: samples that say again what another one says, events included; of several values the highest stands.
        unknown: samples whose name no table holds.
        unknown_names: how many names these have.
        without_uuid: samples without a UUID, told by node and number of the GPU instead.
        without_slot: samples whose PCI address cannot be read; their slot is "".
        dialects: dialects that were heard, by name.
    """

    samples: tuple[Signal, ...]
    refusals: tuple[Refusal, ...]
    events: tuple[Candidate, ...]
    read: int
    used: int
    repeated: int
    unknown: int
    unknown_names: int
    without_uuid: int
    without_slot: int
    dialects: tuple[str, ...]


class _Found(NamedTuple):
    """A value, the rank of its row in the table and its position on the page."""

    rank: int
    value: float
    position: int


Key = tuple[Family, str, tuple[str, ...]]


@dataclass(slots=True)
class _Page:
    """What is known about a page while it is read.

    Attributes:
        said: values by key and labels as they came: a field under two names is said by the first in the table.
    """

    node: str
    slots: Mapping[str, str]
    percent: frozenset[str]
    said: dict[tuple[Key, frozenset[tuple[str, str]]], _Found] = field(default_factory=dict)
    positions: set[int] = field(default_factory=set)
    refusals: list[Refusal] = field(default_factory=list)
    events: dict[Candidate, None] = field(default_factory=dict)
    event_rows: int = 0
    workloads: dict[Key, None] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)
    heard: dict[str, None] = field(default_factory=dict)
    without_uuid: int = 0
    without_slot: int = 0


def translate(samples: Iterable[Raw], node: str = "", dialects: Sequence[Dialect] | None = None) -> Translation:
    """Gives what one page says, in our words.

    Args:
        samples: all samples of one scrape target: some facts need the others, such as the scale of a field.
        node: name of the node where the samples do not say it.
        dialects: tables to read with; None means all.
    """
    page = list(samples)
    known = load_dialects() if dialects is None else tuple(dialects)
    rows = {row.name: (rank, row, dialect) for dialect in known for rank, row in enumerate(dialect.rows)}
    state = _Page(node, slots_by_uuid(page, known), _percentages(page, rows))
    for position, raw in enumerate(page):
        found = rows.get(raw.name)
        speaker = found[2] if found else next((d for d in known if raw.name.startswith(d.prefix)), None)
        if speaker is not None:
            state.heard[speaker.name] = None
            _note_workloads(raw, speaker, state)
        if found is None:
            state.unknown[raw.name] += 1
            continue
        try:
            _read(raw, position, *found, state)
        except Refuse as refuse:
            labels = tuple(sorted(raw.labels.items()))
            state.refusals.append(Refusal(raw.name, labels, refuse.reason, refuse.why))
    return _result(page, state)


def _result(page: Sequence[Raw], state: _Page) -> Translation:
    best: dict[Key, _Found] = {}
    for (key, _), found in state.said.items():
        if key not in best or (found.value, -found.position) > (best[key].value, -best[key].position):
            best[key] = found
    winners = {found.position for found in best.values()}
    samples = [Signal(*key, found.value) for key, found in best.items()]
    samples += [Signal(*key, 1.0) for key in state.workloads if key not in best]
    return Translation(
        samples=tuple(sorted(samples, key=lambda s: (s.family.name, s.node, s.labels))),
        refusals=tuple(state.refusals),
        events=tuple(state.events),
        read=len(page),
        used=len(winners),
        repeated=len(state.positions - winners) + state.event_rows - len(state.events),
        unknown=state.unknown.total(),
        unknown_names=len(state.unknown),
        without_uuid=state.without_uuid,
        without_slot=state.without_slot,
        dialects=tuple(state.heard),
    )


def _read(raw: Raw, position: int, rank: int, row: Row, dialect: Dialect, state: _Page) -> None:
    """Reads one sample of a known name.

    Raises:
        Refuse: with the reason.
    """
    if isinstance(row, Refused):
        raise Refuse(row.reason, row.why)
    for label in dialect.aside:
        if raw.labels.get(label):
            raise Refuse("other_level", f"about one {label}, not about the GPU")
    if isinstance(row, EventGauge):
        _read_event(raw, row, dialect, state)
        return
    if isinstance(row, Mask):
        values = [(row.family, *found) for found in _bits(raw, row, dialect)]
    else:
        values = [_reading(raw, row, dialect, state)]
    gpu = _gpu(raw, dialect, state) if row.family.per_gpu else None
    came = frozenset(raw.labels.items())
    state.positions.add(position)
    for family, labels, value in values:
        key = (family, node_of(raw, state.node), labels if gpu is None else (gpu.uuid, gpu.slot, *labels))
        found = _Found(rank, value, position)
        held = state.said.get((key, came))
        if held is None or (rank, -value) < (held.rank, -held.value):
            state.said[key, came] = found


def _reading(raw: Raw, row: Alias, dialect: Dialect, state: _Page) -> tuple[Family, tuple[str, ...], float]:
    family, labels = row.family, copied(raw, row.labels)
    instance = raw.labels.get(dialect.instance, "") if row.per_instance else ""
    if instance:
        if not text(raw, dialect.instance):
            raise Refuse("bad_label", f"label {dialect.instance} is {instance}")
        if row.mig is None:
            raise Refuse("other_level", "a fact of one MIG instance, for which there is no family of ours")
        family, labels = row.mig, (instance, *labels)
    return family, labels, _value(raw, row, dialect, state)


def _value(raw: Raw, row: Alias, dialect: Dialect, state: _Page) -> float:
    _screen_raw(raw.value, dialect)
    if row.percent_above is not None and row.name not in state.percent:
        raise Refuse("undecided_scale", f"percent or ratio: no value of this target is above {row.percent_above:g}")
    value = raw.value * row.times / row.per
    if not in_span(value, row.span):
        raise Refuse("out_of_range", f"{value!r} is outside {row.span}")
    return value


def in_span(value: float, span: Span | None) -> bool:
    """Tells whether a value is possible; None allows every number."""
    return span is None or span[0] <= value <= span[1]


def _screen_raw(value: float, dialect: Dialect) -> None:
    if not math.isfinite(value):
        raise Refuse("out_of_range", f"{value!r} is no number")
    if value >= TOO_LARGE or (dialect.blanks and value in BLANKS):
        raise Refuse("blank", f"{value!r} stands for a missing value (dcgm_structs.h)")


def _bits(raw: Raw, row: Mask, dialect: Dialect) -> Iterator[tuple[tuple[str, ...], float]]:
    _screen_raw(raw.value, dialect)
    if not 0 <= raw.value < 2**MASK_BITS or raw.value % 1:
        raise Refuse("out_of_range", f"{raw.value!r} is no mask of {MASK_BITS} bits")
    mask = int(raw.value)
    for bit, word in enumerate(row.words):
        yield (word,), float(mask >> bit & 1)
    for bit in range(len(row.words), MASK_BITS):
        if mask >> bit & 1:
            yield (f"bit_{bit}",), 1.0


def _read_event(raw: Raw, row: EventGauge, dialect: Dialect, state: _Page) -> None:
    _screen_raw(raw.value, dialect)
    if raw.value < 0 or raw.value % 1:
        raise Refuse("out_of_range", f"{raw.value!r} is neither a code nor a count")
    window = text(raw, row.window) if row.window else ""
    if row.window and not (window.isascii() and window.isdecimal()):
        raise Refuse("bad_label", f"label {row.window} is no number of milliseconds")
    code = str(int(raw.value)) if row.code is None else text(raw, row.code)
    if not code and raw.value:
        raise Refuse("bad_label", f"label {row.code} is missing")
    gpu = _gpu(raw, dialect, state)
    state.event_rows += 1
    window_ms = int(window) if window else None
    state.events[Candidate(row.kind, code, gpu.node, gpu.uuid, gpu.slot, raw.value, window_ms, row.name)] = None


def _gpu(raw: Raw, dialect: Dialect, state: _Page) -> Gpu:
    """Gives whom a sample is about, and counts what could not be told."""
    gpu = who(raw, dialect, state.slots, state.node)
    state.without_uuid += gpu.uuid.startswith(NO_UUID)
    state.without_slot += gpu.bad_address
    return gpu


def _note_workloads(raw: Raw, dialect: Dialect, state: _Page) -> None:
    """Keeps the workload that the labels of a sample name, whatever its value."""
    for workload in dialect.workloads:
        said = {
            label: next((found for name in names if (found := text(raw, name))), "")
            for label, names in workload.labels.items()
        }
        if not said[workload.key]:
            continue
        try:
            gpu = who(raw, dialect, state.slots, state.node)
        except Refuse:
            continue
        own = (said.get(label, "") for label in GPU_WORKLOAD_INFO.labels[3:])
        state.workloads[GPU_WORKLOAD_INFO, gpu.node, (gpu.uuid, gpu.slot, workload.kind, *own)] = None


def _percentages(page: Iterable[Raw], rows: Mapping[str, tuple[int, Row, Dialect]]) -> frozenset[str]:
    """Gives the names of undecided scale that this page shows to be percentages."""
    above = {name: row.percent_above for name, (_, row, _) in rows.items() if isinstance(row, Alias)}
    return frozenset(
        raw.name for raw in page if (least := above.get(raw.name)) is not None and least < raw.value <= MOST_PERCENT
    )
