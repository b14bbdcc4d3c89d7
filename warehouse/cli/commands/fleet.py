"""gpu-minutes fleet: what is installed where."""

from __future__ import annotations

import click

from warehouse import pipeline, views
from warehouse.cli import edge, tables
from warehouse.evidence.fleet_csv import OPTIONAL, REQUIRED, read_fleet


@click.group("fleet")
def COMMAND() -> None:
    """What is installed where: load a fleet file, show the fleet."""


@COMMAND.command()
@click.argument("file")
def load(file: str) -> None:
    """Loads FILE (fleet.csv) and books the time that it touches; loading it twice changes nothing."""
    nodes = read_fleet(file)
    done = pipeline.load_fleet(edge.open_ledger(), nodes, edge.act("fleet", f"fleet load {file}"))
    gpus = sum(spec.gpus for spec in nodes)
    if not done.changed:
        click.echo(f"{done.nodes_repeated} nodes, all of them already in the ledger; nothing changed")
        return
    parts = [f"{done.nodes_added} nodes added"]
    parts += [f"{done.nodes_retired} retired"] if done.nodes_retired else []
    parts += [f"{done.nodes_repeated} already there"] if done.nodes_repeated else []
    click.echo(f"{', '.join(parts)}; the file names {gpus} GPUs; revision {done.rev}")


@COMMAND.command()
@edge.reading_options
def show(form: str, as_of: int | None) -> None:
    """Shows every node with its place, GPUs and time; the CSV can be loaded again."""
    with edge.reading(as_of) as (connection, revision):
        nodes = views.fleet(connection, revision.rev)
    columns = [*REQUIRED, *OPTIONAL]
    rows = [[node[column] for column in columns] for node in nodes]
    gpus = sum(int(str(node["gpus"])) for node in nodes)
    shown = ["site", "hall", "rack", "node", "gpus", "model", "commissioned", "retired", "state"]
    text = tables.table(shown, [["" if node[c] is None else node[c] for c in shown] for node in nodes], right=[4])
    footer = f"\n{len(nodes)} rows, {gpus} GPUs; revision {revision.rev}"
    edge.show(form, {"revision": revision.rev, "nodes": nodes}, columns, rows, text + footer)
