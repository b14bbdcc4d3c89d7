"""Which driver calls are made, what each returned and how long it took, seen beneath pynvml."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pynvml

NAMES = {
    value: name.removeprefix("NVML_ERROR_").removeprefix("NVML_").lower()
    for name, value in vars(pynvml).items()
    if name == "NVML_SUCCESS" or name.startswith("NVML_ERROR_")
}


def code_name(code: int) -> str:
    """`3 not_supported`."""
    return f"{code} {NAMES.get(code, '?')}"


@dataclass(slots=True)
class Calls:
    """Every call of one function, or every answer of one field id.

    Attributes:
        codes: return codes, with how often each came.
        took_s: time of all calls together.
    """

    codes: Counter[int] = field(default_factory=Counter)
    took_s: float = 0.0

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(self.codes.values())

    def describe(self) -> str:
        """`0 success`, or each code with its number."""
        if len(self.codes) == 1:
            return code_name(next(iter(self.codes)))
        return ", ".join(f"{code_name(code)} ({count})" for code, count in sorted(self.codes.items()))


class Watch:
    """Notes every call from `begin` to `end`; the calls themselves are made as ever.

    Attributes:
        functions: by name of the symbol.
        fields: by (field id, scope), as `nvmlDeviceGetFieldValues` answered it.
    """

    def __init__(self) -> None:
        self.functions: dict[str, Calls] = {}
        self.fields: dict[tuple[int, int], Calls] = {}
        self._find: Callable[[str], Any] = pynvml._nvmlGetFunctionPointer

    def begin(self) -> None:
        """Starts to note."""
        pynvml._nvmlGetFunctionPointer = self._watched

    def end(self) -> None:
        """Stops."""
        pynvml._nvmlGetFunctionPointer = self._find

    def _watched(self, name: str) -> Any:
        calls = self.functions.setdefault(name, Calls())
        try:
            function = self._find(name)
        except pynvml.NVMLError as exc:
            calls.codes[int(exc.value)] += 1
            raise

        def call(*args: Any) -> Any:
            began_s = time.perf_counter()
            code = function(*args)
            calls.took_s += time.perf_counter() - began_s
            calls.codes[int(code)] += 1
            if name == "nvmlDeviceGetFieldValues" and code == 0:
                for value in args[2]._obj:  # what byref() was made of
                    self.fields.setdefault((value.fieldId, value.scopeId), Calls()).codes[value.nvmlReturn] += 1
            return code

        return call
