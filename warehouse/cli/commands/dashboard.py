"""gpu-minutes dashboard: the pages for leadership, finance and on-call, on this machine."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import click

from warehouse.cli import listening
from warehouse.errors import BadInput, Unreachable

_DEFAULT = "127.0.0.1:8501"
_STOP_SECONDS = 10

# Given as flags: a file in the working folder must not change what is shown or sent.
_SETTINGS = {
    "server.headless": "true",
    "server.fileWatcherType": "none",
    "server.runOnSave": "false",
    "server.enableCORS": "true",
    "server.enableXsrfProtection": "true",
    "server.disconnectedSessionTTL": "120",
    "browser.gatherUsageStats": "false",
    "client.showErrorDetails": "none",
    "client.showErrorLinks": "false",
    "client.toolbarMode": "viewer",
    "logger.hideWelcomeMessage": "true",
    "logger.enableRich": "false",
    "logger.level": "warning",
    "theme.light.primaryColor": "#2044dc",
    "theme.light.backgroundColor": "#ffffff",
    "theme.light.secondaryBackgroundColor": "#f1f3f6",
    "theme.light.textColor": "#1b2330",
    "theme.dark.primaryColor": "#6d8ff5",
    "theme.dark.backgroundColor": "#12161c",
    "theme.dark.secondaryBackgroundColor": "#1c222b",
    "theme.dark.textColor": "#e8ebf0",
}


@click.command("dashboard")
@click.option("--listen", default=_DEFAULT, show_default=True, metavar="HOST:PORT", help="Where to listen.")
@click.option("--allow-remote", is_flag=True, help="Listen beyond this machine, though there is no login.")
def COMMAND(listen: str, allow_remote: bool) -> int:
    """Shows the ledger in a browser, read-only, until it is interrupted."""
    host, port = listening.address(listen, _DEFAULT)
    if not listening.is_loopback(host):
        if not allow_remote:
            raise BadInput(
                f"--listen: {host} can be reached from other machines, and the dashboard has no login; "
                "listen on 127.0.0.1, or add --allow-remote"
            )
        click.echo("warning: there is no login; whoever reaches this address reads the whole ledger", err=True)
    app = _app()
    listening.bound(host, port).close()
    click.echo(f"dashboard on http://{listening.shown(host, port)} (Ctrl-C ends it)")
    return _serve(app, host, port)


def _app() -> Path:
    found = importlib.util.find_spec("dashboard")
    missing = [name for name in ("streamlit", "plotly") if importlib.util.find_spec(name) is None]
    if missing or found is None or not found.submodule_search_locations:
        what = " and ".join(missing) or "its pages"
        raise BadInput(f"the dashboard needs {what}; install it with: pip install 'gpu-minutes[dashboard]'")
    return Path(found.submodule_search_locations[0]) / "app.py"


def _serve(app: Path, host: str, port: int) -> int:
    settings = {**_SETTINGS, "server.address": host, "server.port": str(port)}
    flags = [f"--{name}={value}" for name, value in settings.items()]
    command = [sys.executable, "-m", "streamlit", "run", str(app), *flags]
    # A session of its own: Ctrl-C reaches this process alone, which then ends the server in order.
    server = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=os.environ.copy(), start_new_session=True
    )
    try:
        signal.signal(signal.SIGTERM, _interrupt)
        code = server.wait()
    except KeyboardInterrupt:
        _end(server)
        click.echo("dashboard ended")
        return 0
    raise Unreachable(f"the dashboard's server ended by itself with exit code {code}")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _end(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
