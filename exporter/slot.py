"""The slot normaliser: one spelling for a PCI address, whoever wrote it."""

from __future__ import annotations

import re

_ADDRESS = re.compile(
    r"(?:PCI:)?(?:(?P<domain>[0-9a-f]{1,8}):)?(?P<bus>[0-9a-f]{1,2}):(?P<device>[0-9a-f]{1,2})(?:\.[0-7])?",
    re.IGNORECASE,
)


def normalise_slot(address: str) -> str:
    """Gives the slot `domain:bus:device`: four, two and two hex digits, lower case, function dropped.

    A domain beyond 16 bits (a bridge that makes its own) keeps the digits it needs.

    Reads what NVML (`00000000:91:00.0`), the kernel (`PCI:0000:91:00`), NVSwitch (`0000:06:00.0`) and Grace
    (`0008:01:00`) print; a missing domain is 0. The result is a fixed point: `f(f(x)) == f(x)`.

    Raises:
        ValueError: `address` is no PCI address.
    """
    match = _ADDRESS.fullmatch(address.strip())
    if match is None:
        raise ValueError(f"not a PCI address: {address!r}")
    domain = int(match["domain"] or "0", 16)
    bus = int(match["bus"], 16)
    device = int(match["device"], 16)
    if device > 0x1F:
        raise ValueError(f"not a PCI address: {address!r}")
    return f"{domain:04x}:{bus:02x}:{device:02x}"
