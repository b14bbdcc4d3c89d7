"""The driver processes: `python -m exporter.worker snapshots|events`, started by `exporter.child` alone.

`snapshots` answers each request, a number, with an `Asking` before each GPU and then (number, `NvmlSnapshot`); the
initialisation happens under the first request, so that a hang in it falls under the same deadline. `events` sends an
`Asking` before it registers a GPU and an `XidBeat` after every wait. Either one ends when the pipe closes, when the
driver as a whole fails, and with its parent.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from exporter.errors import DriverError, Reason
from exporter.logs import LOG_FORMAT, LOG_LEVEL, configure
from exporter.nvml import events
from exporter.nvml.call import GPU_GONE, close_driver, device_count, open_driver, reason_of
from exporter.nvml.identity import device_handle, device_slot, device_uuid
from exporter.readings import NVML_SUCCESS, Asking, NvmlSnapshot, XidBeat, XidEvent
from exporter.survey import Survey

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_WAIT_MS = 1000


def _die_with(parent_pid: int) -> None:
    """Asks the kernel for SIGTERM when the parent is gone; ends at once if it already is."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent_pid:
        raise SystemExit(0)


def _tell(pipe: Connection[Any, Any], number: int, slot: str) -> None:
    pipe.send(Asking(number, slot))


def serve_snapshots(
    pipe: Connection[Any, Any],
    slow_interval_s: float,
    static_interval_s: float,
    slots: list[str] | None,
    pci: Path | None,
) -> None:
    """Answers requests until the pipe closes or the driver as a whole fails; says before each GPU that it is next."""
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
                survey = Survey(slow_interval_s, static_interval_s, time.monotonic, slots, pci)
            snapshot = survey.cycle(partial(_tell, pipe, number))
            pipe.send((number, snapshot))
            if snapshot.code != NVML_SUCCESS:
                return
    finally:
        if survey is not None:
            survey.close()


class _Registrations:
    """Which handles send their events, and which GPU each was when it was registered.

    Args:
        slots: the only GPUs to touch, by PCI address; None for all that the driver counts.
        tell: called with the slot of each GPU before it is registered, and with "" after the last.
    """

    def __init__(self, slots: list[str] | None, tell: Callable[[str], None]) -> None:
        self._events = events.event_set()
        self._slots = slots
        self._tell = tell
        self._gpu_by_key: dict[int, tuple[str, str]] = {}
        self._uuid_by_index: dict[int | str, str] = {}
        self.refused: tuple[tuple[str, Reason], ...] = ()

    @property
    def registered(self) -> tuple[str, ...]:
        """UUIDs of the GPUs that send their events."""
        return tuple(self._uuid_by_index.values())

    def add_missing(self) -> None:
        """Registers every GPU that answers and is not registered yet."""
        count = device_count()
        wanted: Iterable[int | str] = range(count) if self._slots is None else self._slots
        refused: list[tuple[str, Reason]] = []
        for key in wanted:
            if key in self._uuid_by_index:
                continue
            try:
                self._tell(key if isinstance(key, str) else "")  # by index, nobody knows yet which GPU it is
                handle = device_handle(key)
                slot = device_slot(handle)
                self._tell(slot)
                uuid = device_uuid(handle)
            except DriverError:
                continue  # the snapshot says why; it is tried again
            try:
                events.register_xid(handle, self._events)
            except DriverError as exc:
                reason = reason_of(exc.code)
                if reason not in GPU_GONE:
                    refused.append((uuid, reason))
                continue
            self._uuid_by_index[key] = uuid
            self._gpu_by_key[events.handle_key(handle)] = (uuid, slot)
        self._tell("")
        self.refused = tuple(refused)

    def wait(self, timeout_ms: int) -> tuple[XidEvent, ...]:
        """One wait; a GPU that fell off is named from memory, since it cannot be asked."""
        found = events.wait_xid(self._events, timeout_ms)
        if found is None:
            return ()
        key, xid, gi = found
        uuid, slot = self._gpu_by_key.get(key, ("", ""))
        return (XidEvent(uuid, slot, xid, time.time(), gi),)


def serve_events(pipe: Connection[Any, Any], register_interval_s: float, slots: list[str] | None) -> None:
    """Sends beats until the pipe closes or the event set breaks; says before each GPU that it is next."""
    try:
        open_driver()
        registrations = _Registrations(slots, partial(_tell, pipe, 0))
        registrations.add_missing()
        tried_at_s = time.monotonic()
        seen: tuple[XidEvent, ...] = ()
        while True:
            pipe.send(XidBeat(NVML_SUCCESS, registrations.registered, registrations.refused, seen))
            # After the beat, so that no event waits for a registration that may hang.
            if time.monotonic() - tried_at_s >= register_interval_s:
                registrations.add_missing()
                tried_at_s = time.monotonic()
            seen = registrations.wait(_WAIT_MS)
    except DriverError as exc:
        pipe.send(XidBeat(exc.code))


def main(argv: list[str] | None = None) -> int:
    """Entry point of a driver process; gives the exit code."""
    parser = argparse.ArgumentParser(prog="exporter.worker")
    parser.add_argument("mode", choices=("snapshots", "events"))
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--log-level", default=LOG_LEVEL.default)
    parser.add_argument("--log-format", default=LOG_FORMAT.default)
    parser.add_argument("--slow-interval", type=float, default=30.0)
    parser.add_argument("--static-interval", type=float, default=600.0)
    parser.add_argument("--register-interval", type=float, default=30.0)
    parser.add_argument("--slot", action="append", help="touch this GPU only; may be given several times")
    parser.add_argument("--skip-suspended", type=Path, help="PCI devices in sysfs; see Survey")
    options = parser.parse_args(argv)
    configure(options.log_level, options.log_format)
    _die_with(options.parent)
    pipe: Connection[Any, Any] = Connection(options.fd)
    try:
        if options.mode == "snapshots":
            serve_snapshots(pipe, options.slow_interval, options.static_interval, options.slot, options.skip_suspended)
        else:
            serve_events(pipe, options.register_interval, options.slot)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the parent closed the pipe: time to go
    close_driver()
    return 0


if __name__ == "__main__":
    sys.exit(main())
