"""Clears away after a demo that was killed: ends its children and the embedded database, then ends itself.

A process of its own that reads a pipe whose only writer is the demo: the end of the pipe is the end of the demo,
however it came. It holds the demo's lock too, so that no new demo begins before the old one is cleared away.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from warehouse.demo.layout import Layout
from warehouse.demo.process import birth, end_group, runs
from warehouse.errors import GpuMinutesError

_GRACE_S = 12.0
_BYE = b"bye\n"


class Watchdog:
    """The demo's side of the watchdog.

    Args:
        layout: whose database to stop.
        lock: descriptor of the locked file.
    """

    def __init__(self, layout: Layout, lock: int) -> None:
        self._layout = layout
        self._lock = lock
        self._pids: dict[int, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._writer = -1
        self._start()

    def _start(self) -> None:
        reader, self._writer = os.pipe()
        command = [sys.executable, "-P", "-m", "warehouse.demo.watchdog", str(reader), str(self._layout.root)]
        try:
            with (self._layout.logs / "watchdog.log").open("ab") as log:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(reader, self._lock),
                    start_new_session=True,
                )
        finally:
            os.close(reader)

    @property
    def pid(self) -> int | None:
        """Gives its process id."""
        return None if self._process is None else self._process.pid

    def keep(self) -> None:
        """Starts another watchdog when this one has died."""
        if self._process is not None and self._process.poll() is None:
            return
        os.close(self._writer)
        self._start()
        for pid, born in self._pids.items():
            self._write(f"+{pid} {born}\n".encode())

    def watch(self, pid: int) -> None:
        """Puts a child on the list."""
        self._pids[pid] = birth(pid)
        self._write(f"+{pid} {self._pids[pid]}\n".encode())

    def forget(self, pid: int) -> None:
        """Takes a child off the list."""
        self._pids.pop(pid, None)
        self._write(f"-{pid}\n".encode())

    def dismiss(self) -> None:
        """Ends the watchdog after everything else has ended."""
        self._write(_BYE)
        self.abandon()

    def abandon(self) -> None:
        """Closes the pipe, as the death of the demo does, and waits for the end of the watchdog."""
        os.close(self._writer)
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(2 * _GRACE_S)

    def _write(self, line: bytes) -> None:
        with suppress(BrokenPipeError):  # `keep` notices, and tells the next one all of it
            os.write(self._writer, line)


def _listen(reader: int) -> tuple[dict[int, str], bool]:
    """Gives the children that are on the list when the pipe ends, and whether the demo said goodbye."""
    with os.fdopen(reader, "rb") as stream:
        lines = stream.read().decode().splitlines()
    pids: dict[int, str] = {}
    for line in lines:
        if line.startswith("+"):
            pid, _, born = line[1:].partition(" ")
            pids[int(pid)] = born
        elif line.startswith("-"):
            pids.pop(int(line[1:]), None)
    return pids, _BYE.decode().strip() in lines


def _stop_database(layout: Layout, checks: int) -> None:
    from warehouse.store import connect  # heavy, and only needed at the end

    for number in range(checks):
        if number:
            time.sleep(0.5)  # a start that was under way when the demo died comes up a moment later
        with suppress(GpuMinutesError):  # `initdb` may still be at work; it ends by itself
            connect.stop_embedded(layout.config)


def main(reader: int, root: Path) -> None:
    """Waits for the end of the demo and clears away."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    pids, goodbye = _listen(reader)
    # All of them hear of it at once; then each has its time, the last started first.
    for pid, born in pids.items():
        if runs(pid, born):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
    for pid, born in reversed(pids.items()):
        end_group(pid, born, _GRACE_S)
    _stop_database(Layout(root), 1 if goodbye else 3)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
