"""What can go wrong, as few kinds as users can act on; the CLI turns each into lines on stderr and an exit code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class GpuMinutesError(Exception):
    """Base of everything that this package raises on purpose; `lines` are what a user is shown."""

    exit_code = 1

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


class BadInput(GpuMinutesError):
    """The input is wrong; nothing of it was stored. Exit code 2."""

    exit_code = 2


class Unreachable(GpuMinutesError):
    """A server that the command needs does not answer. Exit code 1."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing wrong in an input: where, and why. A value, so that all of a file's faults can be told at once."""

    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


SHOWN_FINDINGS = 20


def bad_rows(findings: Sequence[Finding | str]) -> BadInput:
    """Gives the exception for a refused file: a line a fault, the first twenty, then how many more."""
    return BadInput(*shown(findings, "nothing was stored"))


def shown(findings: Sequence[Finding | str], end: str) -> list[str]:
    """Gives a line for each of the first findings, and one for how many more there are."""
    lines = [str(finding) for finding in findings[:SHOWN_FINDINGS]]
    if len(findings) > SHOWN_FINDINGS:
        lines.append(f"and {len(findings) - SHOWN_FINDINGS} more; {end}")
    return lines


def one_line(text: str) -> str:
    """Gives a message as one line that no terminal acts on: what came from outside may hold anything."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
