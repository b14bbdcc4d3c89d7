"""What the demo and its watchdog both need to know of a process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")


def birth(pid: int) -> str:
    """Gives when a process began, in ticks since boot, so that a reused id is not taken for it; "" where unknown."""
    fields = _stat(pid)
    return fields[19] if len(fields) > 19 else ""


def runs(pid: int, born: str) -> bool:
    """Tells whether this very process still runs; one that only waits to be reaped does not."""
    if _PROC.joinpath("self").exists():
        fields = _stat(pid)
        return bool(fields) and fields[0] not in "ZX" and (not born or birth(pid) == born)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _stat(pid: int) -> list[str]:
    """Gives the fields of /proc/PID/stat from the state on, none where there is no such process."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def descendants(pid: int) -> dict[int, str]:
    """Gives the births of all processes that a process and its children have started and still own."""
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        for listing in (_PROC / str(waiting.pop()) / "task").glob("*/children"):
            with suppress(OSError):
                children = [int(word) for word in listing.read_text().split() if int(word) not in found]
                found |= {child: birth(child) for child in children}
                waiting += children
    return found


def end_group(pid: int, born: str, grace_s: float, brood: Mapping[int, str] | None = None) -> bool:
    """Ends a process that leads its group, and whatever it has started, in its group or not.

    Args:
        pid: the leader.
        born: its birth.
        grace_s: how long it has to end by itself, and all that it has started with it.
        brood: births of what it is known to have started, for a leader that has ended already.

    Returns:
        Whether it ended by itself.
    """
    offspring = {**(brood or {}), **descendants(pid)}
    if runs(pid, born):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        while runs(pid, born) and time.monotonic() < deadline:
            time.sleep(0.05)
    elif birth(pid) not in ("", born):
        return True  # the id belongs to someone else by now
    willing = not runs(pid, born)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    for child, since in offspring.items():
        if runs(child, since):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
    return willing
