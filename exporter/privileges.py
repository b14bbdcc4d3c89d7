"""What this process may not read: told once at the start, so that a gap on the page is no surprise.

Nothing here needs root. What it leaves out is on the page as a FIELD_UNAVAILABLE sample too, where a collector looks.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

_CAP_SYS_PTRACE = 19  # include/uapi/linux/capability.h; asked for by ptrace_may_access(), proc(5)
_CAPABILITIES = re.compile(r"^CapEff:\s*([0-9a-f]{1,16})$", re.MULTILINE)


def limits_of_process(proc: Path = Path("/proc"), dev: Path = Path("/dev")) -> list[str]:
    """A line for each thing that this process may not read, and what that costs."""
    found = []
    if not _has_capability(proc, _CAP_SYS_PTRACE):
        found.append(
            "without CAP_SYS_PTRACE: what a blocked thread of another user waits in, and the job in its environment, "
            "stay unknown"
        )
    if not _opens(dev / "kmsg", os.O_RDONLY):
        found.append(f"without read access to {dev / 'kmsg'} (CAP_SYSLOG): GPU errors come from the driver alone")
    control = dev / "nvidiactl"
    if control.exists() and not _opens(control, os.O_RDWR):
        found.append(f"without access to {control}: the driver's readings stay unknown")
    return found


def _has_capability(proc: Path, number: int) -> bool:
    try:
        match = _CAPABILITIES.search((proc / "self" / "status").read_text(encoding="ascii", errors="replace"))
    except OSError:
        return False
    return match is not None and bool(int(match[1], 16) >> number & 1)


def _opens(path: Path, flags: int) -> bool:
    try:
        os.close(os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError:
        return False
    return True
