"""gpu-minutes import: one subcommand per source of `warehouse/evidence/sources`."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import click
from sqlalchemy import Engine

from warehouse import pipeline
from warehouse.cli import edge, tables
from warehouse.cli.commands.conflicts import parties, where
from warehouse.errors import BadInput, one_line, shown
from warehouse.evidence.sources import Source, load_sources
from warehouse.model.statement import Batch
from warehouse.model.time import FIRST_MS, LAST_MS, Window, format_instant
from warehouse.views.conflicts import conflicts

_CONTESTED_SHOWN = 3


@click.group("import")
def COMMAND() -> None:
    """Brings in what a source wrote down, and books the time that it touches."""


def _command(source: Source) -> click.Command:
    def run(files: tuple[str, ...], book: bool, revise: bool, keep_good: bool, **texts: str) -> None:
        options = {}
        for option in source.options:
            try:
                options[option.name] = option.parse(texts[option.name])
            except ValueError as exc:
                raise BadInput(f"{option.flag}: {exc}") from exc
        engine = edge.open_ledger()
        with engine.connect() as connection:
            zone = edge.site_zone(connection)
        batch = _read(source, files, zone, options)
        reason = f"import {source.name} {' '.join(files)}"
        act = edge.act("import", reason)
        done = pipeline.take_in(engine, batch, act, book=book, revise=revise, keep_good=keep_good)
        _say(batch, done, book, _contested(engine, done))
        _say_to_come(done, act.now_ms)
        if done.changed:
            edge.say_corrections(engine, done.rev)

    params: list[click.Parameter] = [
        click.Argument(["files"], nargs=-1, required=True, metavar="FILE..."),
        click.Option(["--book/--no-book"], default=True, help="Book at once (default), or leave it to a later book."),
        click.Option(["--keep-good"], is_flag=True, help="Store the good rows beside bad ones; list what is left out."),
        click.Option(["--revise"], is_flag=True, help="Let a known id say something else, as a correction."),
    ]
    params += [
        click.Option([option.flag], default=option.default, show_default=True, help=option.help)
        for option in source.options
    ]
    return click.Command(source.name, callback=run, params=params, help=f"Imports {source.summary}.")


def _read(source: Source, files: tuple[str, ...], zone: ZoneInfo, options: dict[str, object]) -> Batch:
    batches = [source.read(file, zone, options) for file in files]
    return Batch(
        tuple(s for batch in batches for s in batch.statements),
        sum(batch.rows for batch in batches),
        tuple(n for batch in batches for n in batch.nodes),
        tuple(note for batch in batches for note in batch.notes),
        tuple(line for batch in batches for line in batch.refused),
    )


def _contested(engine: Engine, done: pipeline.Done) -> list[str]:
    """Gives what is said of time that rows of this import contest with other jobs: how much, where, what to do."""
    if not done.contested:
        return []
    with engine.connect() as connection:
        found = conflicts(connection, done.rev, Window(FIRST_MS, LAST_MS), of_import=True)
    found.sort(key=lambda c: -c.gpu_ms)
    lines = [
        f"{tables.minutes(done.contested)} GPU-minutes are contested: jobs together claim more than the whole GPU; "
        "none of them holds that time, and where no other source speaks it is unknown"
    ]
    lines += [
        f"  {where(c)}, {format_instant(c.start_ms)} to {format_instant(c.end_ms)}, "
        f"{tables.minutes(c.gpu_ms)} GPU-minutes: {parties(c)}"
        for c in found[:_CONTESTED_SHOWN]
    ]
    if len(found) > _CONTESTED_SHOWN:
        lines.append(f"  and {len(found) - _CONTESTED_SHOWN} more stretches; all of them: gpu-minutes conflicts")
    lines.append(
        "  to settle it, import the rows again with --revise: with the share of each job (column share), or with an "
        "earlier end where a job was over"
    )
    return lines


def _say(batch: Batch, done: pipeline.Done, book: bool, contested: list[str]) -> None:
    intake = done.intake
    for note in batch.notes:
        click.echo(note)
    if done.nodes_added:
        click.echo(f"{done.nodes_added} nodes added, {sum(n.gpus for n in batch.nodes)} GPUs")
    kept = len(intake.evidence) + len(intake.allocations) + len(intake.plans)
    revised = len(intake.superseded) + len(intake.superseded_allocations) + len(intake.superseded_plans)
    words = [f"{batch.rows} rows read", f"{kept} kept"]
    words += [f"{revised} of them revise what was known"] if revised else []
    words += [f"{intake.repeated} repeated"] if intake.repeated else []
    words += [f"{len(done.refused)} left out"] if done.refused else []
    click.echo(", ".join(words))
    for line in shown(done.refused, "left out too"):
        click.echo(f"gpu-minutes: left out: {one_line(line)}", err=True)
    for line in contested:
        click.echo(line)
    if intake.plans and book:
        click.echo(
            f"{done.unfolded} occurrences written or withdrawn so far; later ones follow as the booking reaches them; "
            "see them with: gpu-minutes maintenance list"
        )
    if not done.changed:
        click.echo(f"nothing changed; the ledger stays at revision {done.rev}")
    elif not book:
        click.echo(f"stored, not booked; revision {done.rev}; then run: gpu-minutes book")
    elif done.horizon_ms is None:
        click.echo(f"stored; revision {done.rev}")
    else:
        click.echo(
            f"booked up to {format_instant(done.horizon_ms)}: {done.opened} entries written, "
            f"{done.closed} superseded; revision {done.rev}"
        )


def _say_to_come(done: pipeline.Done, now_ms: int) -> None:
    """Says what begins after now: it is kept and books nothing before its time, or its year is mistyped."""
    starts = [e.start_ms for e in done.intake.evidence] + [a.start_ms for a in done.intake.allocations]
    starts = [start_ms for start_ms in starts if start_ms > now_ms]
    if starts:
        click.echo(
            f"{len(starts)} of them begin after now, the first at {format_instant(min(starts))}: kept, and not booked "
            "before their time"
        )


for _source in load_sources().values():
    COMMAND.add_command(_command(_source))
