"""The whole stack: what starts in which order, and how it ends."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from warehouse.demo.fleet import ALL_NODES, GPUS_PER_NODE
from warehouse.demo.layout import Layout, take_lock
from warehouse.demo.ports import DASHBOARD_PORT, EXPORTER_PORT, HOST, PROMETHEUS_PORT, Ports
from warehouse.demo.prometheus import SCRAPE_S, prometheus_command, prometheus_config
from warehouse.demo.seed import SCENARIO, load_files, write_files
from warehouse.demo.supervise import Child, Stopped, Supervisor
from warehouse.demo.watchdog import Watchdog
from warehouse.errors import BadInput, GpuMinutesError
from warehouse.model.time import format_duration
from warehouse.pipeline import Act
from warehouse.store import connect, migrate

# Every look that moves the horizon is a revision; two scrapes a look keep their number down.
_WORKER_EVERY_S = 2 * SCRAPE_S
_GPUS = len(ALL_NODES) * GPUS_PER_NODE
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GPU_MINUTES = ("-P", "-c", "from warehouse.cli import main; main()")


@dataclass(frozen=True, slots=True)
class Setup:
    """What the demo takes from the edge.

    Attributes:
        layout: where its things are.
        environ: environment of the user.
        prometheus: the binary, None where there is none.
        act: gives the head of a revision from its kind and reason.
        now_ms: gives the time.
        say: prints a line.
    """

    layout: Layout
    environ: Mapping[str, str]
    prometheus: str | None
    act: Callable[[str, str], Act]
    now_ms: Callable[[], int]
    say: Callable[[str], None]


def run_demo(setup: Setup, opened: Callable[[str], None]) -> None:
    """Starts everything, waits for the end, stops everything.

    Args:
        setup: see there.
        opened: called once with the address of the dashboard when it answers.

    Raises:
        BadInput: when a demo runs there already.
        GpuMinutesError: when a part cannot be kept running.
    """
    if importlib.util.find_spec("streamlit") is None:
        raise BadInput("the dashboard is not installed: pip install 'gpu-minutes[dashboard]'")
    lock = take_lock(setup.layout)
    with _plain_errors():
        _run_locked(setup, lock, opened)


@contextmanager
def _plain_errors() -> Iterator[None]:
    """What the disk or the kernel refuses is told in one line; a reader that went away is the caller's matter."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as exc:
        raise GpuMinutesError(f"the demo cannot go on: {exc.filename or 'a file'}: {exc.strerror}") from exc


def _run_locked(setup: Setup, lock: int, opened: Callable[[str], None]) -> None:
    for folder in (setup.layout.logs, setup.layout.prometheus):
        folder.mkdir(exist_ok=True)
    supervisor = Supervisor(_child_env(setup), Watchdog(setup.layout, lock), setup.say)

    def stop(*_: object) -> None:
        supervisor.stopping = True

    before = {number: signal.signal(number, stop) for number in _STOP_SIGNALS}
    ports = Ports(setup.say)
    try:
        with suppress(Stopped):
            _start(setup, supervisor, ports, opened)
            supervisor.watch()
    finally:
        _end(setup, supervisor)
        ports.release()
        os.close(lock)
        for number, handler in before.items():
            signal.signal(number, handler)


def clean(layout: Layout, say: Callable[[str], None]) -> None:
    """Removes the demo's folder.

    Raises:
        BadInput: while a demo runs there, or when the folder is none of a demo.
    """
    if not layout.root.exists():
        say(f"there is no demo under {layout.root}")
        return
    if not layout.lock.exists():
        raise BadInput(f"{layout.root} was not made by a demo; it stays as it is")
    lock = take_lock(layout)
    try:
        with _plain_errors():
            connect.stop_embedded(layout.config)
            shutil.rmtree(layout.root)
    finally:
        os.close(lock)
    say(f"removed {layout.root}")


def _child_env(setup: Setup) -> dict[str, str]:
    """The demo's own ledger and Prometheus for every child, whatever the user has set for real ones."""
    ours = ("GPU_MINUTES_HOME", "GPU_MINUTES_DATABASE_URL", "GPU_MINUTES_PROMETHEUS_", "GPU_MINUTES_SITE_FILE",
            "GPU_MINUTES_ALERTMANAGER_URL")  # fmt: skip
    env = {name: value for name, value in setup.environ.items() if not name.startswith(ours)}
    return env | {"GPU_MINUTES_HOME": str(setup.layout.root), "PYTHONUNBUFFERED": "1"}


def _start(setup: Setup, supervisor: Supervisor, ports: Ports, opened: Callable[[str], None]) -> None:
    say, layout = setup.say, setup.layout
    began_s = time.monotonic()
    say(f"everything here is simulated; it stands under {layout.root}")
    for name in ("GPU_MINUTES_DATABASE_URL", "GPU_MINUTES_PROMETHEUS_URL"):
        if setup.environ.get(name):
            say(f"{name} is set; the demo ignores it and uses its own")
    _fill_ledger(setup, supervisor)
    prometheus = _start_signals(setup, supervisor, ports)
    address = f"{HOST}:{ports.choose('the dashboard', DASHBOARD_PORT)}"
    command = [sys.executable, *_GPU_MINUTES, "dashboard", "--listen", address]
    supervisor.start(Child("the dashboard", command, layout.logs / "dashboard.log"))
    supervisor.wait_for("the dashboard", f"http://{address}/_stcore/health", 120.0)
    say(f"ready after {format_duration(int(1_000 * (time.monotonic() - began_s)))}")
    say("")
    say(f"  dashboard   http://{address}")
    if prometheus is not None:
        say(f"  Prometheus  {prometheus}")
    say(f"  ledger      GPU_MINUTES_HOME={layout.root} gpu-minutes incidents")
    say("")
    if prometheus is not None:
        say("the first live incident is booked within two minutes; Ctrl-C stops all of it")
    else:
        say("Ctrl-C stops all of it")
    opened(f"http://{address}")


def _fill_ledger(setup: Setup, supervisor: Supervisor) -> None:
    supervisor.check()
    engine = connect.open_engine(setup.layout.config)
    migrate.ready(engine)
    setup.say("database: embedded PostgreSQL, running")
    supervisor.check()
    window = write_files(setup.layout.history, setup.now_ms())
    done = load_files(engine, setup.layout.history, setup.act)
    length = format_duration(window.length_ms)
    if done is None:
        setup.say(f"history: {length}, already in the ledger")
    else:
        rows = len(done.intake.evidence) + len(done.intake.allocations)
        setup.say(f"history: {length} of {_GPUS} GPUs, {rows} statements imported, {done.opened} entries booked")


def _start_signals(setup: Setup, supervisor: Supervisor, ports: Ports) -> str | None:
    """Starts exporter, Prometheus and worker; gives the address of Prometheus, None where it is missing."""
    say, layout = setup.say, setup.layout
    if setup.prometheus is None:
        say("no Prometheus on PATH, so no live signals; apt-get install --no-install-recommends prometheus")
        return None
    exporter = f"{HOST}:{ports.choose('the exporter', EXPORTER_PORT)}"
    scenario = layout.history / SCENARIO
    command = [sys.executable, "-P", "-m", "exporter.cli", "--simulate", str(scenario)]
    command += ["--web.listen-address", exporter, "--log.level", "warning"]
    supervisor.start(Child("the exporter", command, layout.logs / "exporter.log"))
    supervisor.wait_for("the exporter", f"http://{exporter}/-/ready", 30.0)
    say(f"exporter: {len(ALL_NODES)} simulated nodes on http://{exporter}")
    address = f"{HOST}:{ports.choose('Prometheus', PROMETHEUS_PORT)}"
    config = layout.prometheus / "prometheus.yml"
    config.write_text(prometheus_config(exporter), encoding="utf-8")
    command = prometheus_command(setup.prometheus, config, layout.prometheus / "data", address)
    supervisor.start(Child("Prometheus", command, layout.logs / "prometheus.log", grace_s=30.0))
    url = f"http://{address}"
    supervisor.wait_for("Prometheus", f"{url}/-/ready", 90.0)
    say(f"Prometheus: {url}")
    supervisor.set_env("GPU_MINUTES_PROMETHEUS_URL", url)
    command = [sys.executable, *_GPU_MINUTES, "run"]
    command += [
        "--every",
        str(_WORKER_EVERY_S),
        "--whole-every",
        "0",
        "--book-every",
        "60",
        "--scrape-interval",
        str(SCRAPE_S),
    ]
    supervisor.start(Child("the worker", command, layout.logs / "worker.log", grace_s=30.0))
    say(f"worker: looks every {_WORKER_EVERY_S} s")
    return url


def _end(setup: Setup, supervisor: Supervisor) -> None:
    """Stops all that was started; whatever happens, the watchdog has the last word."""

    def say(line: str) -> None:
        with suppress(OSError):  # whoever read it may be gone
            setup.say(line)

    say("stopping")
    try:
        supervisor.stop_all(say)
        if connect.stop_embedded(setup.layout.config):
            say("stopped the database")
    finally:
        supervisor.dismiss_watchdog()
