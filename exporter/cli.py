"""Command line of the node exporter: `gpu-minutes-exporter`."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from exporter import __version__
from exporter.collector import Collector, NodeState
from exporter.collectors import discover
from exporter.config import COMMON, INVENTORY, Option, Settings, switch
from exporter.errors import ConfigError
from exporter.inventory import Inventory
from exporter.page import render
from exporter.runner import Runner
from exporter.server import NodeApp, Server, parse_listen_address

DEFAULT_ADDRESS = "127.0.0.1:9844"
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


def _argument(option: Option[Any]) -> Callable[[str], object]:
    def parse(text: str) -> object:
        try:
            return option.parse(text)
        except ValueError as exc:
            raise argparse.ArgumentTypeError(str(exc)) from exc

    return parse


def build_parser(collectors: Mapping[str, type[Collector]]) -> argparse.ArgumentParser:
    """The command line; each collector brings `--collector.NAME`, `--no-collector.NAME` and its own options."""
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
    for option in all_options(collectors):
        if option.metavar:
            add(f"--{option.name}", dest=option.name, type=_argument(option), metavar=option.metavar, help=option.help)
        else:
            add(f"--{option.name}", dest=option.name, action=argparse.BooleanOptionalAction, help=option.help)
    add(
        "--simulate",
        type=Path,
        metavar="FILE",
        help="serve the simulated nodes of a scenario instead of this node; every page says so",
    )
    return parser


def all_options(collectors: Mapping[str, type[Collector]]) -> tuple[Option[Any], ...]:
    """Every option: the common ones, then for each collector its switch and its own."""
    found: list[Option[Any]] = [*COMMON]
    for name, collector in collectors.items():
        found.append(enabled(name, collector))
        found.extend(collector.options)
    return tuple(found)


@cache
def enabled(name: str, collector: type[Collector]) -> Option[bool]:
    """The switch of a collector."""
    return switch(f"collector.{name}", collector.enabled, f"run the {name} collector")


def read_settings(options: argparse.Namespace, collectors: Mapping[str, type[Collector]]) -> Settings:
    """The settings behind a command line."""
    given = vars(options)
    return Settings({o: given[o.name] for o in all_options(collectors) if given[o.name] is not None})


def make_runner(settings: Settings, available: Mapping[str, type[Collector]]) -> Runner:
    """The collectors of this node, not started yet."""
    node = NodeState(Inventory(settings[INVENTORY]))
    chosen = [make(settings, node) for name, make in available.items() if settings[enabled(name, make)]]
    return Runner(chosen, node)


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
    if runner is not None:
        signal.signal(signal.SIGUSR1, lambda *_: runner.release())
        signal.signal(signal.SIGUSR2, lambda *_: runner.resume())
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
    options = build_parser(available).parse_args(argv)
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
    runner = make_runner(read_settings(options, available), available)
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
