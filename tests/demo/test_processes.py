"""Children, their deaths and the watchdog, with real processes that do little."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from warehouse.demo.layout import Layout, take_lock
from warehouse.demo.process import birth, runs
from warehouse.demo.supervise import Child, Stopped, Supervisor
from warehouse.demo.watchdog import Watchdog
from warehouse.errors import GpuMinutesError

# Starts a process in a session of its own, says its id, and waits.
_PARENT = (
    "import subprocess, time\n"
    "child = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
    "print(child.pid, flush=True)\n"
    "time.sleep(600)\n"
)


def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.05)


class Keeper:
    """A supervisor over a folder, and what it said."""

    def __init__(self, layout: Layout) -> None:
        layout.logs.mkdir(parents=True)
        self.said: list[str] = []
        self.layout = layout
        self.lock = take_lock(layout)
        self.watchdog = Watchdog(layout, self.lock)
        self.supervisor = Supervisor(os.environ, self.watchdog, self.said.append)

    def child(self, name: str, *command: str) -> Child:
        return Child(name, command, self.layout.logs / f"{name}.log", grace_s=3.0)


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[Keeper]:
    found = Keeper(Layout(tmp_path / "demo"))
    yield found
    found.supervisor.stop_all(found.said.append)
    found.supervisor.dismiss_watchdog()
    os.close(found.lock)


def test_children_stop_in_reverse_order(keeper: Keeper) -> None:
    children = [keeper.child(name, "sleep", "600") for name in ("first", "second")]
    for child in children:
        keeper.supervisor.start(child)
    pids = [child.process.pid for child in children if child.process is not None]
    assert all(runs(pid, birth(pid)) for pid in pids)
    keeper.supervisor.stop_all(keeper.said.append)
    assert keeper.said == ["stopped second", "stopped first"]
    assert not any(runs(pid, "") for pid in pids)


def test_a_child_that_dies_is_started_again_and_then_given_up(keeper: Keeper) -> None:
    script = "import sys; print('the disk is full'); sys.exit(3)"
    child = keeper.child("worker", sys.executable, "-c", script)
    keeper.supervisor.start(child)
    with pytest.raises(GpuMinutesError) as caught:
        keeper.supervisor.watch()
    for number in (1, 2, 3):
        assert keeper.said[number - 1].startswith("worker ended by itself (exit 3); ")
        assert keeper.said[number - 1].endswith(f"the disk is full; starting it again ({number} of 3)")
    assert len(keeper.said) == 3
    (line,) = caught.value.lines
    assert line.endswith("the disk is full; given up after 3 new starts") and "\n" not in line
    assert caught.value.exit_code == 1


def test_a_child_that_ignores_the_signal_is_ended_by_force(keeper: Keeper) -> None:
    script = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(99)"
    )
    child = keeper.child("stubborn", sys.executable, "-c", script)
    child.grace_s = 0.5
    keeper.supervisor.start(child)
    until(lambda: child.last_words() == "on")
    keeper.supervisor.stop_all(keeper.said.append)
    assert keeper.said == ["stopped stubborn by force: it did not end by itself"]


def test_what_a_dead_child_had_started_does_not_outlive_it(keeper: Keeper) -> None:
    child = keeper.child("parent", sys.executable, "-c", _PARENT)
    keeper.supervisor.start(child)
    until(lambda: child.last_words().isdecimal())
    keeper.supervisor.check()
    grandchild = int(child.last_words())
    assert runs(grandchild, "")
    assert child.process is not None
    child.process.kill()
    child.process.wait()
    keeper.supervisor.check()
    until(lambda: not runs(grandchild, ""))


def test_stopping_is_seen_at_the_next_look(keeper: Keeper) -> None:
    keeper.supervisor.stopping = True
    with pytest.raises(Stopped):
        keeper.supervisor.start(keeper.child("never", "sleep", "600"))
    keeper.supervisor.stop_all(keeper.said.append)
    assert keeper.said == []


def test_a_dead_watchdog_is_replaced_and_told_of_every_child(tmp_path: Path) -> None:
    keeper = Keeper(Layout(tmp_path / "demo"))
    child = keeper.child("sleeper", "sleep", "600")
    keeper.supervisor.start(child)
    first = keeper.watchdog.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    until(lambda: not runs(first, ""))
    keeper.supervisor.check()
    second = keeper.watchdog.pid
    assert second not in (None, first)
    keeper.watchdog.abandon()
    assert child.process is not None
    assert child.process.wait(5) == -signal.SIGTERM
    os.close(keeper.lock)
    os.close(take_lock(keeper.layout))
