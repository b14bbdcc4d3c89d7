"""gpu-minutes fleet: what is installed where, and which GPU sits in which slot."""

from __future__ import annotations

import click

from warehouse import pipeline, views
from warehouse.acts.install import install
from warehouse.cli import edge, tables
from warehouse.evidence.fleet_csv import OPTIONAL, REQUIRED, read_fleet
from warehouse.evidence.gpus_csv import read_gpus


@click.group("fleet")
def COMMAND() -> None:
    """What is installed where: load a fleet file, show the fleet, say which GPU sits where."""


@COMMAND.command()
@click.argument("file")
def load(file: str) -> None:
    """Loads FILE (fleet.csv) and books the time that it touches; loading it twice changes nothing.

    A node moves in two rows of one file: the old place with its `retired`, the new one with a later `commissioned`.
    """
    nodes = read_fleet(file)
    engine = edge.open_ledger()
    done = pipeline.load_fleet(engine, nodes, edge.act("fleet", f"fleet load {file}"))
    gpus = sum(spec.gpus for spec in nodes)
    if not done.changed:
        click.echo(f"{done.nodes_repeated} nodes, all of them already in the ledger; nothing changed")
        return
    parts = [f"{done.nodes_added} nodes added"]
    parts += [f"{done.nodes_retired} retired"] if done.nodes_retired else []
    parts += [f"{done.nodes_repeated} already there"] if done.nodes_repeated else []
    click.echo(f"{', '.join(parts)}; the file names {gpus} GPUs; revision {done.rev}")
    edge.say_corrections(engine, done.rev)


@COMMAND.command()
@edge.reading_options
def show(form: str, as_of: int | None) -> None:
    """Shows every node with its place, GPUs and time; the CSV can be loaded again."""
    with edge.reading(as_of) as (connection, revision):
        nodes = views.fleet(connection, revision.rev)
        empty = views.empty_slots(connection, revision.rev)
    columns = [*REQUIRED, *OPTIONAL]
    rows = [[node[column] for column in columns] for node in nodes]
    gpus = sum(int(str(node["gpus"])) for node in nodes)
    shown = ["site", "hall", "rack", "node", "gpus", "model", "commissioned", "retired", "state"]
    # Few fleets have them, and a table is as wide as a screen.
    shown += [column for column in ("contract", "currency") if any(node[column] for node in nodes)]
    text = tables.table(shown, [["" if node[c] is None else node[c] for c in shown] for node in nodes], right=[4])
    footer = f"\n{len(nodes)} rows, {gpus} GPUs; revision {revision.rev}"
    if empty:
        footer += f"\nempty now, and part of no figure: {_count(empty, 'slot')}; see gpu-minutes fleet history"
    edge.show(form, {"revision": revision.rev, "nodes": nodes}, columns, rows, text + footer)


@COMMAND.group()
def gpus() -> None:
    """Which GPU sits in which slot."""


@gpus.command("load")
@click.argument("file")
@click.option("--revise", is_flag=True, help="Let a row say something else than the ledger of the same slot and time.")
def load_gpus(file: str, revise: bool) -> None:
    """Loads FILE (gpus.csv): since when a GPU sits in slot `index` of a node; the days that this changes are booked.

    A row holds until the next one of its slot, or until the node retires. Blank uuid and serial: the slot stands
    empty. Rows may come late and in any order; what is in the ledger already changes nothing.
    """
    engine = edge.open_ledger()
    with engine.connect() as connection:
        zone = edge.site_zone(connection)
    placings = read_gpus(file, zone)
    done = install(engine, placings, edge.act("fleet", f"fleet gpus load {file}"), revise=revise)
    if not done.changed:
        click.echo(f"{_count(done.repeated, 'row')}, already in the ledger; nothing changed")
        return
    parts = [f"{_count(done.placed - done.emptied, 'GPU')} placed"]
    parts += [f"{done.named} of them new"] if done.named else []
    parts += [f"{_count(done.emptied, 'slot')} emptied"] if done.emptied else []
    parts += [f"{_count(done.repeated, 'row')} already there"] if done.repeated else []
    click.echo(f"{', '.join(parts)}; revision {done.rev}")
    edge.say_corrections(engine, done.rev)


@COMMAND.command()
@click.option("--gpu", metavar="UUID_OR_SERIAL", help="One GPU, over all slots that it sat in.")
@click.option("--slot", metavar="NODE/INDEX", help="One slot, over all GPUs that sat in it; site:SITE/NODE/INDEX too.")
@edge.reading_options
def history(gpu: str | None, slot: str | None, form: str, as_of: int | None) -> None:
    """Shows which GPU sat where from when to when, and what each stay lost; without an option, all named GPUs."""
    with edge.reading(as_of) as (connection, revision):
        document = views.stays(connection, revision, gpu, slot)
    stays, total = document["stays"], document["total"]
    rows = [[stay[column] for column in views.STAY_COLUMNS] for stay in stays]
    shown = [
        [
            stay["slot"],
            stay["gpu"] or ("no name yet" if stay["model"] else "empty"),
            stay["model"] or "",
            stay["from"],
            stay["to"] or "still there",
            *(tables.minutes(stay[column]) for column in ("installed_gpu_ms", "unplanned_gpu_ms", "planned_gpu_ms")),
            stay["incidents"],
            stay["why"] or "",
        ]
        for stay in stays
    ]
    headers = ["slot", "GPU", "model", "from", "to", "GPU-min", "unplanned", "planned", "incidents", "why"]
    booked = f"booked to {document['horizon']}" if document["horizon"] else "nothing is booked yet"
    footer = (
        f"\n{_count(len(stays), 'stay')}, {tables.minutes(total['installed_gpu_ms'])} GPU-minutes, "
        f"{tables.minutes(total['unplanned_gpu_ms'])} of them lost unplanned in "
        f"{_count(total['incidents'], 'incident')}; {booked}; revision {revision.rev}"
    )
    table = tables.table(headers, shown, right=[5, 6, 7, 8])
    edge.show(form, document, list(views.STAY_COLUMNS), rows, table + footer)


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
