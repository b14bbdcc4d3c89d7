"""gpu-minutes serve: the HTTP API, until it is interrupted."""

from __future__ import annotations

import importlib.util
import logging
import signal
import socket
from typing import TYPE_CHECKING

import click

from warehouse.cli import edge, listening
from warehouse.errors import BadInput
from warehouse.store import connect, tokens

if TYPE_CHECKING:
    from fastapi import FastAPI

# Beside the exporter's 9844, so that a firewall has one range to open (decision 9).
_DEFAULT = "127.0.0.1:9845"

# Open connections, idle ones too, so that they never use up what a process may open, which is 1,024 by default.
_MOST_CONNECTIONS = 900
_STOP_SECONDS = 10


@click.command("serve")
@click.option("--listen", default=_DEFAULT, show_default=True, metavar="HOST:PORT", help="Where to listen.")
@click.option("--source", default=None, metavar="NAME", help="Name of deliveries without ?source= (alertmanager).")
@click.option(
    "--ignore-label",
    "ignored",
    multiple=True,
    metavar="NAME",
    help="A label that does not tell alerts apart, besides those of replicas and severity; repeatable.",
)
def COMMAND(listen: str, source: str | None, ignored: tuple[str, ...]) -> None:
    """Takes in what Alertmanager and Grafana deliver, and answers probes and scrapes.

    Every delivery needs a token: gpu-minutes token create NAME. What is listened to is plain HTTP; beyond this machine
    put a proxy with TLS in front.
    """
    missing = [name for name in ("fastapi", "uvicorn") if importlib.util.find_spec(name) is None]
    if missing:
        raise BadInput(f"the API needs {' and '.join(missing)}; install it with: pip install 'gpu-minutes[api]'")
    host, port = listening.address(listen, _DEFAULT)
    app, usable = _app(source, ignored)
    if not listening.is_loopback(host):
        click.echo("warning: plain HTTP beyond this machine; tokens can be read on the way without TLS", err=True)
    if usable == 0:
        click.echo("warning: there is no token, so every delivery is refused: gpu-minutes token create NAME", err=True)
    with listening.bound(host, port) as taken:
        click.echo(f"API on http://{listening.shown(host, port)} (Ctrl-C ends it)")
        _serve(app, taken)
    click.echo("API ended")


def _app(source: str | None, ignored: tuple[str, ...]) -> tuple[FastAPI, int]:
    """Gives the application, and how many tokens can be used."""
    from warehouse.alerts.receive import DEFAULT_IGNORED, DEFAULT_SOURCE, check_source
    from warehouse.api.app import create_app
    from warehouse.api.metrics import Metrics
    from warehouse.api.service import DELIVERIES_AT_A_TIME, Service

    try:
        name = check_source(DEFAULT_SOURCE if source is None else source)
    except BadInput as exc:
        raise BadInput(f"--source: {exc}") from exc
    # Twice as many as deliveries at a time, so that tokens and probes never wait for those.
    engine = connect.pooled(edge.open_ledger(), 2 * DELIVERIES_AT_A_TIME)
    with engine.connect() as connection:
        usable = tokens.usable(connection)
    return create_app(Service(engine, Metrics(engine), name, (*DEFAULT_IGNORED, *ignored))), usable


def _serve(app: FastAPI, taken: socket.socket) -> None:
    import uvicorn

    logging.basicConfig(level=logging.INFO, format="gpu-minutes: %(message)s")
    for library in ("httpx", "httpcore", "sqlalchemy"):
        logging.getLogger(library).setLevel(logging.WARNING)
    settings = uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,  # an address may hold what nobody should read
        server_header=False,
        lifespan="off",
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    # The server ends on both, in order, and then raises the signal again, for whoever asked for it before.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        uvicorn.Server(settings).run(sockets=[taken])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
