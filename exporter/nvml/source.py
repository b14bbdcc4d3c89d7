"""What a source of readings is: one subject of the driver, and where its numbers go."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import pynvml

from exporter.errors import DriverError
from exporter.family import Family
from exporter.nvml.call import PERMANENT, call, reason_of
from exporter.readings import Identity


class Refused(int):
    """The NVML return code of one value, where the call as a whole succeeded."""

    @property
    def permanent(self) -> bool:
        """True if it need not be asked again until the next static refresh."""
        return reason_of(self) in PERMANENT


Raw = float | Refused


@runtime_checkable
class Closable(Protocol):
    """Something that holds what the driver lent."""

    def close(self) -> None:
        """Gives it back; never raises."""


@dataclass(slots=True)
class Gpu:
    """A GPU that is being asked.

    Attributes:
        handle: NVML handle.
        identity: who it is, as of the last static refresh.
        now_s: monotonic seconds of this cycle.
        memory: what sources keep from one cycle to the next, by a name of their own; forgotten when the GPU is gone.
        refused: what the driver refused for good, by whatever stands for the question; emptied with every static
            refresh too.
    """

    handle: Any
    identity: Identity
    now_s: float = 0.0
    memory: dict[str, Any] = field(default_factory=dict)
    refused: dict[Hashable, Refused] = field(default_factory=dict)

    def forget(self) -> None:
        """Empties both, and closes what can be closed."""
        for kept in self.memory.values():
            if isinstance(kept, Closable):
                kept.close()
        self.memory.clear()
        self.refused.clear()


@dataclass(frozen=True, slots=True)
class Field:
    """Where one raw number goes.

    Attributes:
        family: its family.
        labels: values of the labels after `uuid` and `slot`.
        times, per: whole numbers that turn the driver's unit into the family's, so that 94 % is 0.94 exactly.
    """

    family: Family
    labels: tuple[str, ...] = ()
    times: int = 1
    per: int = 1

    def value(self, raw: float) -> float:
        """The raw number in the unit of the family."""
        return raw * self.times / self.per


Pairs = Sequence[tuple[Field, Raw]]
Read = Callable[[Gpu], Pairs]
"""Makes the calls and gives fields with their raw values; raises `DriverError`."""


@dataclass(frozen=True, slots=True)
class Source:
    """One driver call, or a few that belong together.

    Attributes:
        slow: True for calls made on the slow cycle alone.
        fields: what it fills when it fills everything; each is named unavailable when the call fails.
        read: makes the call.
    """

    slow: bool
    fields: tuple[Field, ...]
    read: Read


def fast(fields: Sequence[Field], raws: Callable[[Any], Sequence[Raw]]) -> Source:
    """A source of every cycle; `raws` takes a handle and gives one raw value for each field, in order."""
    return _source(False, tuple(fields), raws)


def slow(fields: Sequence[Field], raws: Callable[[Any], Sequence[Raw]]) -> Source:
    """A source of the slow cycle; see `fast`."""
    return _source(True, tuple(fields), raws)


def _source(is_slow: bool, fields: tuple[Field, ...], raws: Callable[[Any], Sequence[Raw]]) -> Source:
    return Source(is_slow, fields, lambda gpu: tuple(zip(fields, raws(gpu.handle), strict=True)))


def number(function: Callable[..., Any], *args: Any) -> Callable[[Any], Sequence[Raw]]:
    """A call that gives one number."""

    def read(handle: Any) -> Sequence[Raw]:
        return (call(function, handle, *args),)

    return read


def first_of(*ways: Read) -> Read:
    """The first of several ways to one thing that this GPU does not refuse for good.

    A way that fails for now is not replaced by the next one: two counters of one thing begin at different numbers,
    and a change between them would look like traffic.
    """

    def read(gpu: Gpu) -> Pairs:
        for way in ways:
            if way in gpu.refused:
                continue
            try:
                found = way(gpu)
            except DriverError as exc:
                code = Refused(exc.code)
                if not code.permanent:
                    raise
                gpu.refused[way] = code
                continue
            if all(isinstance(raw, Refused) and raw.permanent for _, raw in found):
                gpu.refused[way] = Refused(pynvml.NVML_ERROR_NOT_SUPPORTED)
                continue
            return found
        raise DriverError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    return read
