"""Command line of the node exporter: `gpu-minutes-exporter`."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from exporter import __version__
from exporter.collector import Collector, NodeState
from exporter.collectors import discover
from exporter.config import INVENTORY, Option, Settings, nearest
from exporter.errors import ConfigError
from exporter.inventory import Inventory
from exporter.logs import LOG_FORMAT, LOG_LEVEL, configure
from exporter.options import all_options, as_settings, choose, enabled, show
from exporter.page import render
from exporter.privileges import limits_of_process
from exporter.runner import Runner
from exporter.server import LISTEN, TELEMETRY_PATH, App, Limits, NodeApp, Server, parse_listen_address
from exporter.slot import normalise_slot
from exporter.web.config import WEB_CONFIG
from exporter.web.live import Guard, LiveGuard

_EPILOG = """\
Every setting is a flag, a variable (GPU_MINUTES_EXPORTER_LOG_LEVEL for --log.level) and a key of --config.file, in
this order of precedence. Exit codes: 0 ended as asked, 1 a defect, 2 bad input.
"""
_log = logging.getLogger("exporter")


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
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--once", action="store_true", help="print one page and exit")
    add("--config.show", dest="show", action="store_true", help="print every setting and where it is from, and exit")
    add("--inventory.retire", dest="retire", metavar="SLOT", help="forget the GPU of a slot that stays empty, and exit")
    add("--version", action="version", version=f"gpu-minutes-exporter {__version__}")
    for option in all_options(collectors):
        flag, default = f"--{option.name}", _default_text(option)
        text = f"{option.help}{default}".replace("%", "%%")
        if not option.metavar:
            add(flag, dest=option.name, action=argparse.BooleanOptionalAction, help=text)
        else:
            action = "extend" if option.many else "store"
            add(flag, dest=option.name, action=action, type=_argument(option), metavar=option.metavar, help=text)
    add(
        "--simulate",
        type=Path,
        metavar="FILE",
        help="serve the simulated nodes of a scenario instead of this node; every page says so",
    )
    return parser


def _default_text(option: Option[Any]) -> str:
    value = option.default
    if value is None:
        return ""
    if not option.metavar:
        return " (on)" if value else " (off)"
    if isinstance(value, float):
        return f" ({value:g})"
    return f" ({', '.join(value) if option.many else value})"


def parse_flags(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    """The flags; one that there is not is a ConfigError that names the nearest."""
    given, unknown = parser.parse_known_args(argv)
    if unknown:
        known = [flag for action in parser._actions for flag in action.option_strings]
        todo = nearest(unknown[0].split("=")[0], known, "--help lists what there is")
        raise ConfigError(f"unrecognized arguments: {' '.join(unknown)}; {todo}")
    return given


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
    try:
        sys.stdout.write(page.decode())
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as exc:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes once more at its end
        raise ConfigError(f"cannot write the page: {exc.strerror}") from exc


def _retire(path: Path | None, address: str) -> str:
    """Takes a slot out of the inventory; says what it held."""
    if path is None:
        raise ConfigError("--inventory.retire needs the file of the running exporter: --path.inventory FILE")
    if not path.exists():
        raise ConfigError(f"inventory file {path} does not exist")
    try:
        gpu = Inventory(path).retire(normalise_slot(address))
    except ValueError as exc:
        raise ConfigError(f"--inventory.retire: {exc}; a slot is written like 0000:19:00") from exc
    except OSError as exc:
        raise ConfigError(f"inventory file {path}: {exc.strerror}") from exc
    held = f"{gpu.slot} is retired; it held {gpu.uuid} {gpu.model}".rstrip()
    return f"{held}\nIf a GPU answers there, it is back at once.\n"


class _Signals:
    """The wait for SIGTERM or SIGINT.

    By a pipe that the interpreter's own handler writes to: a signal that comes just before a lock is waited for would
    set an Event too, but nobody would wake the one who waits.

    Args:
        runner: lets go of the driver at SIGUSR1 and takes it up again at SIGUSR2; None if there is none.
    """

    def __init__(self, runner: Runner | None) -> None:
        self._runner = runner
        self._asked, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, lambda *_: None)

    def wait(self) -> None:
        """Returns once one of them has come."""
        while (number := os.read(self._asked, 1)[0]) not in (signal.SIGTERM, signal.SIGINT):
            if self._runner is not None and number == signal.SIGUSR1:
                self._runner.release()
            if self._runner is not None and number == signal.SIGUSR2:
                self._runner.resume()


def serve(settings: Settings, app: App, runner: Runner | None) -> None:
    """Serves on every address until SIGTERM or SIGINT; raises ConfigError if it cannot."""
    signals = _Signals(runner)
    guard, limits = LiveGuard(settings[WEB_CONFIG]), Limits()
    servers = [Server(parse_listen_address(address), app, guard, limits) for address in settings[LISTEN]]
    for server in servers:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
    if runner is not None:
        runner.start()
    _tell(servers, guard.current())
    if runner is not None:
        for line in limits_of_process():
            _log.info("%s", line)
    signals.wait()
    _log.info("stopping")
    for server in servers:
        server.shutdown()
        server.server_close()
    if runner is not None:
        runner.stop()


def _tell(servers: Sequence[Server], guard: Guard) -> None:
    if guard.open and not all(server.on_loopback for server in servers):
        _log.warning("other machines can read every page, without TLS or a password; see --web.config.file")
    for server in servers:
        _log.info("listening on %s: %s", server.address, guard.describe)


def _run(argv: Sequence[str] | None) -> None:
    available = discover()
    flags = parse_flags(build_parser(available), argv)
    chosen = choose(vars(flags), os.environ, all_options(available))
    if flags.show:
        sys.stdout.write(show(chosen))
        return
    settings = as_settings(chosen)
    configure(settings[LOG_LEVEL], settings[LOG_FORMAT])
    if flags.retire is not None:
        sys.stdout.write(_retire(settings[INVENTORY], flags.retire))
        return
    if flags.simulate is not None:
        if flags.once:
            raise ConfigError("--once prints this node's page; it does not go with --simulate")
        from exporter.simulate import FleetApp, read_scenario  # a node does not need it

        serve(settings, FleetApp(read_scenario(flags.simulate)), None)
        return
    runner = make_runner(settings, available)
    if flags.once:
        _print_once(runner)
        return
    off = [name for name, make in available.items() if not settings[enabled(name, make)]]
    serve(settings, NodeApp(runner, settings[TELEMETRY_PATH], off), runner)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the exporter; gives 0 after a clean end and 2 for bad input, which is told in a line for each fault."""
    try:
        _run(argv)
    except ConfigError as exc:
        for line in str(exc).splitlines():
            print(f"gpu-minutes-exporter: {line}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader of --once has seen enough; the interpreter must not flush to it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
