"""Runs the collectors of one node, each in its own thread, and gathers what they know."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence

from exporter import __version__
from exporter import metrics as m
from exporter.collector import Collector, NodeState, health_samples
from exporter.errors import CollectError
from exporter.readings import Sample
from exporter.web.landing import CollectorState

_log = logging.getLogger(__name__)


def exporter_sample(mode: str) -> Sample:
    """The line that names the exporter; `mode` is "hardware" or "simulated"."""
    return Sample(m.EXPORTER_INFO, (__version__, mode), 1.0)


class Runner:
    """The collectors of one node.

    A scrape does no I/O: it asks each collector what it knows. One that fails, hangs or is overdue loses its
    own readings and nothing else.

    Args:
        collectors: what to run.
        node: what they share.
    """

    def __init__(self, collectors: Sequence[Collector], node: NodeState) -> None:
        self._node = node
        self._collectors = tuple(collectors)
        self._stopping = threading.Event()
        self._first_cycle = {collector.name: threading.Event() for collector in self._collectors}

    def start(self, once: bool = False) -> None:
        """Starts every collector's thread; with `once`, for a single cycle."""
        for collector in self._collectors:
            # A daemon: it may sit in a read that never returns, and must not keep the process alive.
            run = threading.Thread(target=self._run, args=(collector, once), name=collector.name, daemon=True)
            run.start()

    def wait_first_cycle(self) -> None:
        """Waits until every collector has finished a cycle or missed its deadline."""
        end_s = time.monotonic() + max((c.deadline_s for c in self._collectors), default=0.0) + 1.0
        for event in self._first_cycle.values():
            event.wait(max(0.0, end_s - time.monotonic()))

    def release(self) -> None:
        """Leaves the driver alone until `resume`: its processes end, so that a GPU can be reset or unbound."""
        _log.warning("the driver is let go; SIGUSR2 takes it up again")
        self._node.released.set()

    def resume(self) -> None:
        """Takes up the driver again."""
        _log.info("the driver is taken up again")
        self._node.released.clear()

    def stop(self) -> None:
        """Ends the cycles and gives back what the collectors hold."""
        self._stopping.set()
        for collector in self._collectors:
            try:
                collector.stop()
            except Exception:  # one that cannot must not keep the others from giving back theirs
                _log.exception("collector %s", collector.name)

    def _run(self, collector: Collector, once: bool) -> None:
        while not self._stopping.is_set():
            began_s = time.monotonic()
            self._cycle(collector, began_s)
            self._first_cycle[collector.name].set()
            if once:
                # The thread stays: a driver process ends with the thread that started it.
                self._stopping.wait()
            self._stopping.wait(max(0.0, began_s + collector.period_s - time.monotonic()))

    def _cycle(self, collector: Collector, began_s: float) -> None:
        health = collector.health
        try:
            collector.cycle()
            succeeded = True
        except CollectError as exc:
            succeeded = False
            if not self._stopping.is_set():
                health.count(exc.reason)
                self._tell(collector, str(exc))
        except Exception:  # the last line of defence: a defect in one collector must not end its thread
            succeeded = False
            if not self._stopping.is_set():  # while stopping, what it reads is closed under its feet
                health.count("internal")
                _log.exception("collector %s", collector.name)
        if succeeded:
            if not health.succeeded and health.finished_s is not None:
                _log.info("collector %s works again", collector.name)
            health.last_success_s = time.time()
        health.succeeded = succeeded
        health.finished_s = time.monotonic()
        health.duration_s = health.finished_s - began_s

    def _tell(self, collector: Collector, message: str) -> None:
        """Logs a failure when it begins, not each time it is met again."""
        level = logging.DEBUG
        if collector.health.succeeded or collector.health.finished_s is None:
            level = logging.WARNING
        _log.log(level, "collector %s: %s", collector.name, message)

    def _fresh(self, collector: Collector, now_s: float) -> bool:
        """Whether what a collector knows may be served: its last cycle succeeded and no cycle is overdue."""
        health = collector.health
        if not health.succeeded or health.finished_s is None:
            return False
        return now_s - health.finished_s <= collector.period_s + collector.deadline_s

    def samples(self) -> Iterator[Sample]:
        """Everything that is known now."""
        now_s = time.monotonic()
        yield exporter_sample("hardware")
        for collector in self._collectors:
            fresh = self._fresh(collector, now_s)
            yield from health_samples(collector.health, fresh)
            try:
                yield from list(collector.samples(fresh, now_s))
            except Exception:  # as above: one collector's defect costs its own lines alone
                collector.health.count("internal")
                _log.exception("collector %s", collector.name)
        yield from self._node.xid_times.samples()

    def states(self) -> list[CollectorState]:
        """How each collector fares, for people."""
        now_s, unix_s = time.monotonic(), time.time()
        found = []
        for collector in self._collectors:
            health = collector.health
            word = "starting" if health.finished_s is None else "works" if health.succeeded else "fails"
            if word == "works" and not self._fresh(collector, now_s):
                word = "overdue"
            age_s = None if health.last_success_s is None else max(0.0, unix_s - health.last_success_s)
            found.append(CollectorState(collector.name, word, age_s, health.duration_s))
        return found

    def unready(self) -> str:
        """Why the exporter is not ready, "" if it is: a collector without a cycle yet, or overdue."""
        now_s = time.monotonic()
        for collector in self._collectors:
            finished_s = collector.health.finished_s
            if finished_s is None:
                return f"collector {collector.name} has not finished a cycle yet"
            if now_s - finished_s > collector.period_s + collector.deadline_s:
                return f"collector {collector.name} is overdue"
            reason = collector.stalled(now_s)
            if reason:
                return f"collector {collector.name}: {reason}"
        return ""
