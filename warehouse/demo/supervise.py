"""The children of the demo: started, watched, started again when they die, stopped in order."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from warehouse.demo.process import birth, descendants, end_group
from warehouse.demo.watchdog import Watchdog
from warehouse.errors import GpuMinutesError, Unreachable

_RESTARTS = 3
_RESTARTS_WITHIN_S = 300.0
_STEP_S = 0.2
_PR_SET_PDEATHSIG = 1  # prctl(2)
_TAIL_BYTES = 4_096
_LINE_LETTERS = 300


class Stopped(Exception):
    """The user wants the demo to end; not an error."""


@dataclass(slots=True)
class Child:
    """One child process.

    Attributes:
        name: what people call it.
        command: its command line.
        log: where its output goes.
        grace_s: how long it has to end by itself.
        process: it, once started.
        born: its birth.
        brood: births of the processes that it had started when it was last looked at.
        deaths: monotonic seconds of each end that nobody asked for.
    """

    name: str
    command: Sequence[str]
    log: Path
    grace_s: float = 15.0
    process: subprocess.Popen[bytes] | None = None
    born: str = ""
    brood: dict[int, str] = field(default_factory=dict)
    deaths: list[float] = field(default_factory=list)

    def last_words(self) -> str:
        """Gives the last line of its log that is not blank."""
        try:
            with self.log.open("rb") as stream:
                stream.seek(max(0, self.log.stat().st_size - _TAIL_BYTES))
                lines = stream.read().decode(errors="replace").split("\n")
        except OSError:
            lines = []
        return next((line.strip()[:_LINE_LETTERS] for line in reversed(lines) if line.strip()), "nothing")


class Supervisor:
    """Keeps the children.

    Args:
        env: environment of every child.
        watchdog: hears of each.
        say: prints a line.
    """

    def __init__(self, env: Mapping[str, str], watchdog: Watchdog, say: Callable[[str], None]) -> None:
        self._env = dict(env)
        self._watchdog = watchdog
        self._say = say
        self._children: list[Child] = []
        self.stopping = False

    def set_env(self, name: str, value: str) -> None:
        """Sets a variable for the children that start from now on."""
        self._env[name] = value

    def start(self, child: Child) -> None:
        """Starts a child; it is the first to be stopped of all that run by now."""
        self.check()
        self._children.append(child)
        self._launch(child)

    def check(self) -> None:
        """Looks after the children once.

        Raises:
            Stopped: when the user wants the end.
            GpuMinutesError: when a child dies again and again.
        """
        if self.stopping:
            raise Stopped
        self._watchdog.keep()
        for child in self._children:
            if child.process is None:
                continue
            if child.process.poll() is None:
                child.brood = descendants(child.process.pid)
            else:
                self._mourn(child)

    def watch(self) -> None:
        """Looks after the children until one of the ends of `check`."""
        while True:
            self.check()
            time.sleep(_STEP_S)

    def wait_for(self, what: str, url: str, seconds: float) -> None:
        """Waits until a URL answers 200.

        Raises:
            Unreachable: when it does not in time.
        """
        deadline = time.monotonic() + seconds
        while True:
            self.check()
            try:
                # Loopback needs no proxy, whatever the environment says.
                if httpx.get(url, timeout=2.0, trust_env=False).status_code == httpx.codes.OK:
                    return
            except httpx.HTTPError:
                pass
            if time.monotonic() > deadline:
                raise Unreachable(f"{what} does not answer at {url} within {seconds:.0f} s; see the logs of the demo")
            time.sleep(_STEP_S)

    def stop_all(self, say: Callable[[str], None]) -> None:
        """Stops all children, the last started first, and says so; `say` must not raise."""
        while self._children:
            child = self._children.pop()
            if child.process is None:
                continue
            willing = self._end(child)
            self._say(
                f"stopped {child.name}" if willing else f"stopped {child.name} by force: it did not end by itself"
            )

    def dismiss_watchdog(self) -> None:
        """Ends the watchdog; it ends whatever is left, which is nothing after `stop_all`."""
        self._watchdog.dismiss()

    def _launch(self, child: Child) -> None:
        with child.log.open("ab") as log:
            child.process = subprocess.Popen(
                child.command,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the demo alone; it stops the others in order
                preexec_fn=_die_with(os.getpid()),
            )
        child.born = birth(child.process.pid)
        self._watchdog.watch(child.process.pid)

    def _end(self, child: Child) -> bool:
        process = child.process
        assert process is not None
        willing = process.poll() is not None or end_group(process.pid, child.born, child.grace_s)
        process.wait()
        self._watchdog.forget(process.pid)
        child.process = None
        return willing

    def _mourn(self, child: Child) -> None:
        assert child.process is not None
        code = child.process.returncode
        how = f"exit {code}" if code >= 0 else signal.Signals(-code).name
        # What it has started itself must not outlive it.
        end_group(child.process.pid, child.born, 0.0, child.brood)
        self._watchdog.forget(child.process.pid)
        child.process = None
        now_s = time.monotonic()
        child.deaths = [at_s for at_s in child.deaths if now_s - at_s < _RESTARTS_WITHIN_S] + [now_s]
        line = f"{child.name} ended by itself ({how}); {child.log} ends with: {child.last_words()}"
        number = len(child.deaths)
        if number > _RESTARTS:
            raise GpuMinutesError(f"{line}; given up after {_RESTARTS} new starts")
        self._say(f"{line}; starting it again ({number} of {_RESTARTS})")
        time.sleep(min(2.0 ** (number - 1), 5.0) / 2)
        self._launch(child)


def _die_with(parent: int) -> Callable[[], None] | None:
    """Gives what a child does before it begins: asks the kernel for SIGTERM when its parent dies. Linux only."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)  # it has died already

    return ask
