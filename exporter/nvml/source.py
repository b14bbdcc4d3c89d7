"""What a source of readings is: one driver call, and where its numbers go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, runtime_checkable

import pynvml

from exporter.family import Family
from exporter.nvml.call import call


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
        now_s: monotonic seconds of this cycle.
        memory: what sources keep from one cycle to the next, by a name of their own; forgotten when the GPU is gone.
    """

    handle: Any
    now_s: float = 0.0
    memory: dict[str, Any] = field(default_factory=dict)

    def forget(self) -> None:
        """Empties `memory`, and closes what can be closed."""
        for kept in self.memory.values():
            if isinstance(kept, Closable):
                kept.close()
        self.memory.clear()


class Refused(int):
    """The NVML return code of one value in a batch whose call as a whole succeeded."""


Raw = float | Refused


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


@dataclass(frozen=True, slots=True)
class Source:
    """One driver call.

    Attributes:
        slow: True for calls made on the slow cycle alone.
        fields: what it fills when it fills everything; each is named unavailable when the call fails.
        read: makes the call and gives fields with their raw values; raises `DriverError`.
    """

    slow: bool
    fields: tuple[Field, ...]
    read: Callable[[Gpu], Sequence[tuple[Field, Raw]]]


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


# Members of the value union by its type tag (nvmlValueType_t in nvml.h).
_UNION_MEMBER: Final = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


def field_values(*field_ids: int) -> Callable[[Any], Sequence[Raw]]:
    """Reads a batch of field ids; the call says success even where a value says otherwise."""

    def one(value: Any) -> Raw:
        if value.nvmlReturn != pynvml.NVML_SUCCESS:
            return Refused(value.nvmlReturn)
        if not 0 <= value.valueType < len(_UNION_MEMBER):
            return Refused(pynvml.NVML_ERROR_UNKNOWN)
        return float(getattr(value.value, _UNION_MEMBER[value.valueType]))

    def read(handle: Any) -> Sequence[Raw]:
        return tuple(one(value) for value in call(pynvml.nvmlDeviceGetFieldValues, handle, list(field_ids)))

    return read
