"""The laws of the tiling as code: each raises where it is broken, and nothing is cut to fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warehouse.model.entry import Entry
from warehouse.model.fleet import TenureBlock
from warehouse.model.slots import count
from warehouse.model.time import Window, format_instant


class LawBroken(Exception):
    """A law of the ledger does not hold; carries the law's name and the first place where it breaks."""

    def __init__(self, law: str, message: str) -> None:
        super().__init__(f"{law}: {message}")
        self.law = law


def installed_gpu_ms(tenure: Iterable[TenureBlock], window: Window) -> int:
    """Gives the area of tenure inside the window, in GPU-milliseconds: slots x time, from commissioning on."""
    area = 0
    for block in tenure:
        end_ms = window.end_ms if block.end_ms is None else min(block.end_ms, window.end_ms)
        area += count(block.slots) * max(0, end_ms - max(block.start_ms, window.start_ms))
    return area


def check_conservation(entries: Sequence[Entry], tenure: Iterable[TenureBlock], window: Window) -> None:
    """Law 1: sum of entries = area of tenure, to the millisecond.

    Raises:
        LawBroken: with both figures.
    """
    booked = sum(entry.gpu_ms for entry in entries)
    installed = installed_gpu_ms(tenure, window)
    if booked != installed:
        raise LawBroken(
            "conservation",
            f"{booked} GPU-ms booked, {installed} installed in "
            f"[{format_instant(window.start_ms)}, {format_instant(window.end_ms)})",
        )


def check_one_state(entries: Sequence[Entry]) -> None:
    """Law 2: no GPU-instant is booked twice.

    Raises:
        LawBroken: naming the slot and the instant.
    """
    per_slot_end: dict[int, int] = {}
    for entry in sorted(entries, key=lambda e: e.start_ms):
        for slot in range(entry.slot_from, entry.slot_to):
            if per_slot_end.get(slot, entry.start_ms) > entry.start_ms:
                raise LawBroken("one state", f"slot {slot} twice at {format_instant(entry.start_ms)}")
            per_slot_end[slot] = entry.end_ms
