"""One driver process as its parent sees it: start, pipe, polite end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from exporter.errors import CollectError
from exporter.logs import child_options

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Child:
    """A running `python -m exporter.worker`.

    It must be started from a thread that lives as long as the process: the kernel sends the parent-death
    signal when the *thread* that forked ends (prctl(2), PR_SET_PDEATHSIG).

    Args:
        mode: "snapshots" or "events".
        options: further command line of the worker.
    """

    def __init__(self, mode: str, options: Sequence[str] = ()) -> None:
        ours, theirs = Pipe(duplex=True)
        command = [sys.executable, "-P", "-m", "exporter.worker", mode]
        command += [f"--fd={theirs.fileno()}", f"--parent={os.getpid()}", *child_options(), *options]
        try:
            # A process group of its own: Ctrl-C is for the parent, which then ends its children in order.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),), process_group=0
            )
        except OSError as exc:
            ours.close()
            raise CollectError("worker", f"cannot start the driver process: {exc}") from exc
        finally:
            theirs.close()
        self._pipe: Connection[Any, Any] = ours

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def alive(self) -> bool:
        """True until the process has ended."""
        return self._process.poll() is None

    def resident_bytes(self) -> int:
        """Resident memory now; 0 if the process has ended."""
        try:
            pages = Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1]
        except (OSError, IndexError):
            return 0
        return int(pages) * _PAGE_BYTES

    def send(self, message: object) -> None:
        """Sends a request; raises `CollectError` if the process is gone."""
        try:
            self._pipe.send(message)
        except OSError as exc:
            raise CollectError("worker", "the driver process has ended") from exc

    def receive(self, timeout_s: float) -> Any | None:
        """The next message, or None if none came in `timeout_s`.

        Raises:
            CollectError: the process ended without one.
        """
        try:
            return self._pipe.recv() if self._pipe.poll(max(0.0, timeout_s)) else None
        except (EOFError, OSError) as exc:
            raise CollectError("worker", "the driver process has ended") from exc

    def abandon(self) -> None:
        """Closes the pipe and lets go of a process that does not answer: it ends when its call returns."""
        self._pipe.close()

    def stop(self, grace_s: float = 2.0) -> bool:
        """Closes the pipe, asks the process to end, waits; gives True if it did.

        Never SIGKILL: killing a process inside the driver has frozen GPUs (NVIDIA/dcgm-exporter issue 84).
        One that sits in the driver goes when its call returns, or with this process.
        """
        self._pipe.close()
        if self.alive():
            self._process.terminate()
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            return False
        return True
