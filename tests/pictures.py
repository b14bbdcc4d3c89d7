"""Pictures for ledger tests: one character is one minute, one row is one slot, a space says nothing."""

from __future__ import annotations

from collections.abc import Sequence

from warehouse.ledger.sweep import sweep
from warehouse.model.entry import Claim, Entry
from warehouse.model.state import State
from warehouse.model.time import MS_PER_MINUTE, Window

LETTERS = {
    "X": State.STRANDED,
    "D": State.DOWN,
    "R": State.RECOVERING,
    "M": State.MAINTENANCE,
    "S": State.SPARE,
    "H": State.HUNG,
    "L": State.LOST_WORK,
    "U": State.UNUSABLE,
    "C": State.CHECKPOINT,
    "V": State.STARVED,
    "G": State.DEGRADED,
    "T": State.STARTUP,
    "A": State.IDLE_ALLOCATED,
    "P": State.PRODUCTIVE,
    "B": State.IDLE_BLOCKED,
    "I": State.IDLE,
}
LETTER_OF = {state: letter for letter, state in LETTERS.items()} | {State.UNKNOWN: "."}


def claims_of(rows: Sequence[str], slot: int = 0) -> list[Claim]:
    """Gives one claim per run of a letter in each row; every row speaks of the same slot."""
    claims = []
    for number, row in enumerate(rows):
        at = 0
        while at < len(row):
            end = at
            while end < len(row) and row[end] == row[at]:
                end += 1
            if row[at] != " ":
                claims.append(
                    Claim(
                        ((slot, slot + 1),),
                        at * MS_PER_MINUTE,
                        end * MS_PER_MINUTE,
                        LETTERS[row[at]],
                        f"{number}-{at}",
                        "picture",
                    )
                )
            at = end
    return claims


def floor(slots: int, minutes: int) -> Claim:
    """Gives the tenure of `slots` slots over the whole picture."""
    return Claim(((0, slots),), 0, minutes * MS_PER_MINUTE, State.UNKNOWN, "tenure", "tenure", floor=True)


def paint(entries: Sequence[Entry], slots: int, minutes: int) -> list[str]:
    """Gives the tiling back as a picture; `.` is unknown, a space is no GPU, `!` is an instant booked twice."""
    grid = [[" "] * minutes for _ in range(slots)]
    for entry in entries:
        for slot in range(entry.slot_from, entry.slot_to):
            for minute in range(entry.start_ms // MS_PER_MINUTE, entry.end_ms // MS_PER_MINUTE):
                grid[slot][minute] = LETTER_OF[entry.payload.state] if grid[slot][minute] == " " else "!"
    return ["".join(row) for row in grid]


def tiled(*rows: str) -> str:
    """Gives the picture that the claims in `rows` make of one slot installed throughout."""
    minutes = max(len(row) for row in rows)
    entries = sweep([*claims_of(rows), floor(1, minutes)], Window(0, minutes * MS_PER_MINUTE))
    return paint(entries, 1, minutes)[0]
