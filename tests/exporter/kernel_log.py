"""Writes a kernel log in the format of /dev/kmsg."""

from __future__ import annotations

import os
import time
from pathlib import Path


class KernelLog:
    """A log that grows.

    Args:
        path: a file or a named pipe; made as a file if there is none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # A pipe opened for reading and writing does not wait for its other end.
        self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        self._sequence = 100

    def say(self, *texts: str, at_s: float | None = None, priority: int = 4, lost: int = 0) -> None:
        """Writes records, as the kernel would.

        Args:
            texts: a message each; of several lines if it was printed at once.
            at_s: seconds since boot, now if None.
            priority: 8 times the facility, plus the severity.
            lost: how many records before the first were overwritten.
        """
        self._sequence += lost
        for text in texts:
            self._sequence += 1
            at_us = round((time.monotonic() if at_s is None else at_s) * 1e6)
            escaped = "".join(
                chr(byte) if 32 <= byte < 127 and byte != 92 else f"\\x{byte:02x}" for byte in text.encode()
            )
            self.raw(f"{priority},{self._sequence},{at_us},-;{escaped}\n SUBSYSTEM=pci\n DEVICE=+pci:x\n".encode())

    def raw(self, data: bytes) -> None:
        """Writes bytes as they are."""
        while data:
            data = data[os.write(self._fd, data) :]
