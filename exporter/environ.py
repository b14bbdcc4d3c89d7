"""Environment of other processes: what users may have written there, so bounded and plain."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

_MAX_BYTES: Final = 1024 * 1024
_MAX_VALUE: Final = 1024


def read_environ(procfs: Path, pid: int, names: Iterable[str]) -> dict[str, str]:
    """Some variables of a process, as they were when its program started.

    Args:
        procfs: where proc is mounted.
        pid: process id.
        names: the variables wanted.

    Returns:
        Those that are there; one that is longer than 1024 bytes or is not printable ASCII is left out.

    Raises:
        OSError: it may not be read (`PermissionError`) or the process has gone.
    """
    wanted = {name.encode() for name in names}
    with (procfs / str(pid) / "environ").open("rb") as file:
        content = file.read(_MAX_BYTES)
    found: dict[str, str] = {}
    for entry in content.split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name in wanted and len(value) <= _MAX_VALUE and value.isascii():
            text = value.decode("ascii")
            if text.isprintable():
                found.setdefault(name.decode(), text)
    return found


def owner(procfs: Path, pid: int) -> str:
    """Numeric id of the user that a process runs as; raises OSError if it has gone."""
    return str((procfs / str(pid)).stat().st_uid)
