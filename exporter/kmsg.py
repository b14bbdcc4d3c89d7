"""The kernel's log device, `/dev/kmsg`: records, and a reader that never waits in a read.

Format: kernel Documentation/ABI/testing/dev-kmsg. A regular file or a pipe with the same lines reads the same way.
"""

from __future__ import annotations

import os
import re
import select
from dataclasses import dataclass
from pathlib import Path

_HEAD = re.compile(rb"([0-9]{1,5}),([0-9]{1,20}),([0-9]{1,20})(?:,[^;]*)?;(.*)", re.DOTALL)
_ESCAPE = re.compile(rb"\\x([0-9a-fA-F]{2})")
# A read into a smaller buffer than the record fails with EINVAL; no kernel makes one longer than 8 KiB (printk.c,
# CONSOLE_EXT_LOG_MAX).
_READ_BYTES = 16_384
_LONGEST_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class KmsgRecord:
    """One message of the kernel's log.

    Attributes:
        facility: who wrote it; 0 is the kernel, and no process can write with it.
        sequence: number of the record since boot, without gaps.
        since_boot_s: when it was written.
        text: the message, of several lines if the kernel printed them at once.
    """

    facility: int
    sequence: int
    since_boot_s: float
    text: str


def parse_record(line: bytes) -> KmsgRecord | None:
    """Reads one line of the device without its line end; None if it is none of its records.

    Unknown header fields are left out, as the format asks for. The kernel writes what is not printable ASCII, line
    ends within a message included, as `\\x0a`; bytes that are no UTF-8 become U+FFFD.
    """
    match = _HEAD.match(line)
    if match is None:
        return None
    priority, sequence, since_boot_us, escaped = match.groups()
    raw = _ESCAPE.sub(lambda found: bytes((int(found[1], 16),)), escaped)
    return KmsgRecord(int(priority) >> 3, int(sequence), int(since_boot_us) / 1e6, raw.decode("utf-8", "replace"))


class KmsgFile:
    """An open log device, read from its oldest record on.

    Args:
        path: the device, or a file in its format.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        self._rest = b""

    def wait(self, timeout_s: float) -> None:
        """Waits until there may be something to read, at most `timeout_s`."""
        self._poll.poll(timeout_s * 1000)

    def lines(self, most_reads: int) -> tuple[list[bytes], bool]:
        """Whole lines, without waiting; lines that continue a record (its properties, for machines) are left out.

        Args:
            most_reads: how many reads to make at most; the device gives one record a read.

        Returns:
            The lines, and whether that was all there is at present.

        Raises:
            OSError: it cannot be read any more.
        """
        found: list[bytes] = []
        for _ in range(most_reads):
            try:
                chunk = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                return found, True
            except BrokenPipeError:
                continue  # EPIPE: records were overwritten before they were read; the sequence number says how many
            if not chunk:  # the end of a file, or a pipe that nobody writes to at present
                return found, True
            *whole, self._rest = (self._rest + chunk).split(b"\n")
            self._rest = self._rest[:_LONGEST_BYTES]
            found.extend(line for line in whole if line and not line.startswith(b" "))
        return found, False

    def close(self) -> None:
        """Closes the device."""
        os.close(self._fd)
