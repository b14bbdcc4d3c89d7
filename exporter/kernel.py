"""Text that the kernel writes for us: files of proc, sys and control groups, read whole.

Such a read asks no device, no server and no driver; still each collector reads in a thread of its own.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

from exporter.errors import CollectError, Reason
from exporter.family import COUNT

READ_REASONS: Final[tuple[Reason, ...]] = ("no_permission", "unknown")
"""What `read_text` raises."""

# No such file: a feature that is not built in, a process or a control group that has ended. EOPNOTSUPP: pressure
# with psi=0. ENODEV: a file of a control group that was removed while it was open.
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EOPNOTSUPP, errno.ENODEV, errno.ESRCH})


def read_text(path: Path) -> str | None:
    r"""Content of a file, None if the kernel has no such file or not the feature behind it.

    Bytes that are no UTF-8 (a path may hold any) become `\xNN`.

    Raises:
        CollectError: `no_permission`, or `unknown` for any other failure.
    """
    try:
        return path.read_bytes().decode("utf-8", errors="backslashreplace")
    except OSError as exc:
        if exc.errno in _ABSENT:
            return None
        denied = exc.errno in (errno.EACCES, errno.EPERM)
        raise CollectError("no_permission" if denied else "unknown", str(exc)) from exc


def whole_number(text: str) -> int | None:
    """A count as the kernel writes it: ASCII digits, at most those of 64 bits; None for anything else."""
    return int(text) if len(text) <= 20 and text.isascii() and text.isdigit() else None


def possible(count: int) -> bool:
    """Whether a count can be one: a negative number printed without sign stands near 2^64."""
    return COUNT[0] <= count <= COUNT[1]
