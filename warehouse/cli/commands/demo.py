"""gpu-minutes demo: the whole stack on this machine, over a simulated fleet."""

from __future__ import annotations

import os
import shutil
import webbrowser

import click

from warehouse import clock, config
from warehouse.cli import edge
from warehouse.demo import stack
from warehouse.demo.layout import demo_layout


@click.group("demo", invoke_without_command=True)
@click.option("--browser/--no-browser", default=False, help="Open the dashboard (default: only print its address).")
@click.pass_context
def COMMAND(ctx: click.Context, browser: bool) -> None:
    """Runs the whole stack on this machine, over a simulated fleet; Ctrl-C stops it.

    Database, exporter, Prometheus, worker and dashboard on loopback, with five days of history. All it keeps lies in
    the folder `demo` under GPU_MINUTES_HOME; a second start goes on where the first one was.
    """
    if ctx.invoked_subcommand is not None:
        return
    setup = stack.Setup(
        layout=demo_layout(config.load()),
        environ=dict(os.environ),
        prometheus=shutil.which("prometheus"),
        act=edge.act,
        now_ms=clock.now_ms,
        say=click.echo,
    )

    def opened(url: str) -> None:
        if browser:
            webbrowser.open(url)

    stack.run_demo(setup, opened)


@COMMAND.command()
def clean() -> None:
    """Removes the demo's folder; refused while a demo runs."""
    stack.clean(demo_layout(config.load()), click.echo)
