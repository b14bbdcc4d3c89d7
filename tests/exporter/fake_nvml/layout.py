"""Writes the C header of the state file from the ctypes structures, so that its layout is declared once, in Python."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from typing import Any

_C_NAMES: dict[Any, str] = {
    ctypes.c_int32: "int32_t",
    ctypes.c_uint32: "uint32_t",
    ctypes.c_int64: "int64_t",
    ctypes.c_uint64: "uint64_t",
    ctypes.c_double: "double",
    ctypes.c_char: "char",
}


def _inner(kind: Any) -> tuple[Any, str]:
    """The element type of a field, and its dimensions as C writes them."""
    dimensions = ""
    while issubclass(kind, ctypes.Array):
        dimensions += f"[{kind._length_}]"
        kind = kind._type_
    return kind, dimensions


def _structures(kind: type[ctypes.Structure]) -> Iterator[type[ctypes.Structure]]:
    """This structure after all those inside it."""
    for _, field in kind._fields_:  # type: ignore[misc]  # no bit fields here
        inner, _ = _inner(field)
        if issubclass(inner, ctypes.Structure):
            yield from _structures(inner)
    yield kind


def c_name(kind: type[ctypes.Structure]) -> str:
    """`MigInstance` is `struct mig_instance`."""
    name = kind.__name__.lstrip("_")
    return "".join("_" + c.lower() if c.isupper() and n else c.lower() for n, c in enumerate(name))


def header(state: type[ctypes.Structure], functions: Iterable[str]) -> str:
    """The text of `layout.h`: an enum of the functions, `F_NAME` each, and every structure in `state`."""
    enum = ", ".join(f"F_{name.upper()}" for name in functions)
    lines = ["/* Written from script.py by layout.py. */", "#include <stdint.h>", f"enum {{ {enum} }};"]
    for kind in dict.fromkeys(_structures(state)):
        lines.append(f"struct {c_name(kind)} {{")
        for name, field in kind._fields_:  # type: ignore[misc]  # no bit fields here
            inner, dimensions = _inner(field)
            c_type = _C_NAMES.get(inner) or f"struct {c_name(inner)}"
            lines.append(f"    {c_type} {name}{dimensions};")
        lines.append("};")
        lines.append(f'_Static_assert(sizeof(struct {c_name(kind)}) == {ctypes.sizeof(kind)}, "as in Python");')
    return "\n".join(lines) + "\n"
