"""Readings by field id: many values in one call, each with a return code of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pynvml

from exporter.nvml.call import call
from exporter.nvml.source import Field, Gpu, Pairs, Raw, Refused, Source

# Members of the value union by its type tag (nvmlValueType_t in nvml.h).
_UNION_MEMBER: Final = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


@dataclass(frozen=True, slots=True)
class FieldId:
    """A plain value of `nvmlDeviceGetFieldValues`; all of one speed are asked in one call (see `merge`).

    Attributes:
        slow: True for the slow cycle alone.
        into: where it goes.
        number: the field id, or what finds it for a GPU; a `Refused` in its place is not asked.
        scope: scopeId, where nvml.h says that the field has one.
    """

    slow: bool
    into: Field
    number: int | Callable[[Gpu], int | Refused]
    scope: int = 0

    def ask(self, gpu: Gpu) -> int | Refused:
        """The field id for this GPU, or why it is not asked."""
        if self in gpu.refused:
            return gpu.refused[self]
        return self.number(gpu) if callable(self.number) else self.number


def _raw(value: Any) -> Raw:
    """One value of a batch; the call says success even where the value says otherwise."""
    if value.nvmlReturn == pynvml.NVML_ERROR_INVALID_ARGUMENT:
        return Refused(pynvml.NVML_ERROR_NOT_SUPPORTED)  # a field id or scope that this driver does not know
    if value.nvmlReturn != pynvml.NVML_SUCCESS:
        return Refused(value.nvmlReturn)
    if not 0 <= value.valueType < len(_UNION_MEMBER):
        return Refused(pynvml.NVML_ERROR_UNKNOWN)
    return float(getattr(value.value, _UNION_MEMBER[value.valueType]))


def field_values(handle: Any, keys: Sequence[tuple[int, int]]) -> tuple[Raw, ...]:
    """Reads field ids, each with its scope, in one call; raises `DriverError`."""
    return tuple(_raw(value) for value in call(pynvml.nvmlDeviceGetFieldValues, handle, list(keys)))


def _batch(slow: bool, members: tuple[FieldId, ...]) -> Source:
    def read(gpu: Gpu) -> Pairs:
        asks = {member: member.ask(gpu) for member in members}
        asked = [member for member, number in asks.items() if not isinstance(number, Refused)]
        answers: dict[FieldId, Raw] = {m: n for m, n in asks.items() if isinstance(n, Refused)}
        if asked:
            raws = field_values(gpu.handle, [(asks[member], member.scope) for member in asked])
            answers.update(zip(asked, raws, strict=True))
        for member, raw in answers.items():
            if isinstance(raw, Refused) and raw.permanent:
                gpu.refused[member] = raw
        return tuple((member.into, answers[member]) for member in members)

    return Source(slow, tuple(member.into for member in members), read)


def merge(found: Iterable[Source | FieldId]) -> tuple[Source, ...]:
    """Sources as they are, then the field ids as one source of each speed."""
    sources: list[Source] = []
    members: dict[bool, list[FieldId]] = {}
    for one in found:
        if isinstance(one, FieldId):
            members.setdefault(one.slow, []).append(one)
        else:
            sources.append(one)
    return (*sources, *(_batch(slow, tuple(ids)) for slow, ids in members.items()))
