"""The driver processes: `python -m exporter.worker snapshots|events`, started by `exporter.child` alone.

`snapshots` answers each request, a number, with (number, `NvmlSnapshot`); the initialisation happens under
the first request, so that a hang in it falls under the same deadline. `events` sends an `XidBeat` after every
wait. Either one ends when the pipe closes, when the driver as a whole fails, and with its parent.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from exporter.errors import DriverError
from exporter.nvml import events
from exporter.nvml.call import close_driver, device_count, open_driver
from exporter.nvml.identity import device_handle, identify
from exporter.readings import NVML_SUCCESS, NvmlSnapshot, XidBeat, XidEvent
from exporter.survey import Survey

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_WAIT_MS = 1000
_REGISTER_INTERVAL_S = 30.0


def _die_with(parent_pid: int) -> None:
    """Asks the kernel for SIGTERM when the parent is gone; ends at once if it already is."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent_pid:
        raise SystemExit(0)


def serve_snapshots(
    pipe: Connection[Any, Any], slow_interval_s: float, static_interval_s: float, pci: Path | None
) -> None:
    """Answers requests until the pipe closes or the driver as a whole fails."""
    survey: Survey | None = None
    try:
        while True:
            number = pipe.recv()
            if survey is None:
                try:
                    open_driver()
                except DriverError as exc:
                    pipe.send((number, NvmlSnapshot(exc.code)))
                    return
                survey = Survey(slow_interval_s, static_interval_s, time.monotonic, pci)
            snapshot = survey.cycle()
            pipe.send((number, snapshot))
            if snapshot.code != NVML_SUCCESS:
                return
    finally:
        if survey is not None:
            survey.close()


class _Registrations:
    """Which handles send their events, and which GPU each was when it was registered."""

    def __init__(self) -> None:
        self._events = events.event_set()
        self._gpu_by_key: dict[int, tuple[str, str]] = {}
        self._indices: set[int] = set()

    def add_missing(self) -> int:
        """Registers every GPU that answers and is not registered yet; gives how many are."""
        for index in range(device_count()):
            if index in self._indices:
                continue
            try:
                handle = device_handle(index)
                identity = identify(index, handle)
                events.register_xid(handle, self._events)
            except DriverError:
                continue  # the snapshot says why; it is tried again
            self._indices.add(index)
            self._gpu_by_key[events.handle_key(handle)] = (identity.uuid, identity.slot)
        return len(self._indices)

    def wait(self, timeout_ms: int) -> tuple[XidEvent, ...]:
        """One wait; a GPU that fell off is named from memory, since it cannot be asked."""
        found = events.wait_xid(self._events, timeout_ms)
        if found is None:
            return ()
        uuid, slot = self._gpu_by_key.get(found[0], ("", ""))
        return (XidEvent(uuid, slot, found[1], time.time()),)


def serve_events(pipe: Connection[Any, Any]) -> None:
    """Sends beats until the pipe closes or the event set breaks."""
    try:
        open_driver()
        registrations = _Registrations()
        registered = registrations.add_missing()
        pipe.send(XidBeat(NVML_SUCCESS, registered))
        tried_at_s = time.monotonic()
        while True:
            seen = registrations.wait(_WAIT_MS)
            if time.monotonic() - tried_at_s >= _REGISTER_INTERVAL_S:
                tried_at_s = time.monotonic()
                registered = registrations.add_missing()
            pipe.send(XidBeat(NVML_SUCCESS, registered, seen))
    except DriverError as exc:
        pipe.send(XidBeat(exc.code))


def main(argv: list[str] | None = None) -> int:
    """Entry point of a driver process; gives the exit code."""
    parser = argparse.ArgumentParser(prog="exporter.worker")
    parser.add_argument("mode", choices=("snapshots", "events"))
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--slow-interval", type=float, default=30.0)
    parser.add_argument("--static-interval", type=float, default=600.0)
    parser.add_argument("--skip-suspended", type=Path, help="PCI devices in sysfs; see Survey")
    options = parser.parse_args(argv)
    _die_with(options.parent)
    pipe: Connection[Any, Any] = Connection(options.fd)
    try:
        if options.mode == "snapshots":
            serve_snapshots(pipe, options.slow_interval, options.static_interval, options.skip_suspended)
        else:
            serve_events(pipe)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the parent closed the pipe: time to go
    close_driver()
    return 0


if __name__ == "__main__":
    sys.exit(main())
