"""Command line of the node exporter: `gpu-minutes-exporter`."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from exporter import __version__
from exporter.collector import Collector, NodeState
from exporter.collectors import discover
from exporter.config import Settings
from exporter.errors import ConfigError
from exporter.inventory import Inventory
from exporter.page import render
from exporter.runner import Runner
from exporter.server import NodeApp, Server, parse_listen_address

DEFAULT_ADDRESS = "127.0.0.1:9844"
_MIN_INTERVAL_S = 1.0  # an interval in milliseconds copied as seconds has cost other exporters whole cores
_log = logging.getLogger("exporter")


class _KeyValue(logging.Formatter):
    """One line per record: `level=info logger=... msg="..."`."""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage().replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        line = f'level={record.levelname.lower()} logger={record.name} msg="{message}"'
        return line if record.exc_info is None else f"{line}\n{self.formatException(record.exc_info)}"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)


def _seconds(minimum_s: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        value_s = float(text)
        if not minimum_s <= value_s <= 3600:
            raise argparse.ArgumentTypeError(f"{text} is not between {minimum_s:g} and 3600 seconds")
        return value_s

    parse.__name__ = "number of seconds"  # argparse names it when the text is no number
    return parse


def build_parser(collectors: Sequence[str]) -> argparse.ArgumentParser:
    """The command line; each collector gets its `--no-collector.NAME`."""
    parser = _Parser(
        prog="gpu-minutes-exporter",
        description="Exports what the GPUs of this node say, for Prometheus.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--web.listen-address", dest="address", default=DEFAULT_ADDRESS, metavar="HOST:PORT")
    add("--web.telemetry-path", dest="path", default="/metrics", metavar="PATH")
    add("--once", action="store_true", help="print one page and exit")
    add("--log.level", dest="log_level", default="info", choices=("debug", "info", "warning", "error"))
    add("--version", action="version", version=f"gpu-minutes-exporter {__version__}")
    add("--path.procfs", dest="procfs", type=Path, default=Path("/proc"), metavar="DIR")
    add(
        "--path.inventory",
        dest="inventory",
        type=Path,
        metavar="FILE",
        help="where the GPUs of this node are remembered; without it, until the exporter stops",
    )
    add(
        "--collector.job.directory",
        dest="job_directory",
        type=Path,
        metavar="DIR",
        help="folder with one file per GPU, named by index or UUID, that holds the job ids",
    )
    for name, minimum, default, text in (
        ("interval", _MIN_INTERVAL_S, 5.0, "driver cycle"),
        ("deadline", 0.1, 5.0, "silence of the driver after which it counts as stuck"),
        ("slow-interval", _MIN_INTERVAL_S, 30.0, "cycle of counters and limits"),
        ("replace-after", 1.0, 60.0, "age of a stuck driver process at which one replacement is started"),
        ("recycle-after", 1.0, 60.0, "age of a driver process that misses a GPU at which it is started anew"),
    ):
        flag, dest = f"--collector.nvml.{name}", f"{name.replace('-', '_')}_s"
        help_text = f"{text} (default {default:g} s)"
        add(flag, dest=dest, type=_seconds(minimum), default=default, metavar="SECONDS", help=help_text)
    for name in collectors:
        add(f"--no-collector.{name}", dest="disabled", action="append_const", const=name)
    add(
        "--simulate",
        type=Path,
        metavar="FILE",
        help="serve the simulated nodes of a scenario instead of this node; every page says so",
    )
    return parser


def read_settings(options: argparse.Namespace) -> Settings:
    """The settings behind a command line."""
    return Settings(
        interval_s=options.interval_s,
        deadline_s=options.deadline_s,
        slow_interval_s=options.slow_interval_s,
        replace_after_s=options.replace_after_s,
        recycle_after_s=options.recycle_after_s,
        procfs=options.procfs,
        job_directory=options.job_directory,
        inventory_file=options.inventory,
        disabled=frozenset(options.disabled or ()),
    )


def make_runner(settings: Settings, available: dict[str, type[Collector]]) -> Runner:
    """The collectors of this node, not started yet."""
    node = NodeState(Inventory(settings.inventory_file))
    chosen = [make(settings, node) for name, make in available.items() if name not in settings.disabled]
    return Runner(chosen)


def _print_once(runner: Runner) -> None:
    runner.start(once=True)
    runner.wait_first_cycle()
    page, _ = render(runner.samples())
    runner.stop()
    sys.stdout.write(page.decode())
    sys.stdout.flush()


def serve(server: Server, runner: Runner | None) -> None:
    """Serves until SIGTERM or SIGINT."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    if runner is not None:
        runner.start()
    _log.info("listening on %s", server.address)
    stop.wait()
    _log.info("stopping")
    server.shutdown()
    server.server_close()
    if runner is not None:
        runner.stop()


def _run(argv: Sequence[str] | None) -> None:
    available = discover()
    options = build_parser(tuple(available)).parse_args(argv)
    logging.basicConfig(level=options.log_level.upper(), stream=sys.stderr)
    logging.getLogger().handlers[0].setFormatter(_KeyValue())
    if not options.path.startswith("/") or options.path == "/":
        raise ConfigError(f"telemetry path {options.path!r} must begin with / and name a page")
    address = parse_listen_address(options.address)
    if options.simulate is not None:
        if options.once:
            raise ConfigError("--once prints this node's page; it does not go with --simulate")
        from exporter.simulate import FleetApp, read_scenario  # a node does not need it

        serve(Server(address, FleetApp(read_scenario(options.simulate))), None)
        return
    runner = make_runner(read_settings(options), available)
    if options.once:
        _print_once(runner)
        return
    serve(Server(address, NodeApp(runner, options.path)), runner)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the exporter; gives 0 after a clean end and 2 for bad input, which is told in one line."""
    try:
        _run(argv)
    except ConfigError as exc:
        print(f"gpu-minutes-exporter: {exc}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader of --once has seen enough; the interpreter must not flush to it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
