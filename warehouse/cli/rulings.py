"""What a person rules on an incident: members of the group `gpu-minutes incident`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import click
from sqlalchemy import Engine

from warehouse.acts import ruling
from warehouse.acts.ruling import Ruled
from warehouse.cli import edge
from warehouse.errors import BadInput
from warehouse.evidence.cells import short_text
from warehouse.evidence.sources.evidence import known_cause
from warehouse.model.incident import BY_RULES
from warehouse.pipeline import Act

F = TypeVar("F", bound=Callable[..., Any])

_AUTHOR = click.option("--author", metavar="NAME", help="Who rules (default: the user of this shell).")


def _why(command: F) -> F:
    command = _AUTHOR(command)
    return click.option("--reason", required=True, metavar="TEXT", help="Why; it stands in the audit log for ever.")(
        command
    )


@click.command()
@click.argument("number", metavar="ID")
@click.argument("cause", metavar="CAUSE", required=False)
@click.option("--withdraw", is_flag=True, help="Take back what people attributed: the rules decide again.")
@_why
def attribute(number: str, cause: str | None, withdraw: bool, reason: str, author: str | None) -> None:
    """Charges incident ID with another CAUSE, such as power/psu. Late evidence that joins it is charged so too."""
    incident_id, act = edge.incident_id(number), _act(author, reason)
    if (cause is None) != withdraw:
        raise BadInput("name the cause that is charged, or --withdraw and no cause")
    if cause is not None:
        try:
            known_cause(cause)
        except ValueError as exc:
            raise BadInput(str(exc)) from exc
    engine = edge.open_ledger()
    ruled = ruling.attribute(engine, incident_id, cause, act)
    rules = ", as the rules say" if withdraw else ""
    if ruled.cause == ruled.cause_before:
        words = f"INC-{incident_id} stays charged with {ruled.cause}{rules}"
    else:
        words = f"INC-{incident_id} is charged with {ruled.cause}{rules}; it was {ruled.cause_before}"
    _say(engine, ruled, words)


@click.command()
@click.argument("number", metavar="ID")
@click.argument("into", metavar="INTO")
@_why
def merge(number: str, into: str, reason: str, author: str | None) -> None:
    """Merges incident ID into INTO, which keeps its number and its charged cause. No total changes."""
    incident_id, into_id = edge.incident_id(number), edge.incident_id(into)
    engine = edge.open_ledger()
    ruled = ruling.merge(engine, incident_id, into_id, _act(author, reason))
    _say(engine, ruled, f"INC-{incident_id} was merged into INC-{into_id}, which stays charged with {ruled.cause}")


@click.command()
@click.argument("number", metavar="ID")
@click.option(
    "--evidence", "named", metavar="SOURCE/KEY", multiple=True, required=True,
    help="Evidence that is no part of it, by source and id; give it once for each.",
)  # fmt: skip
@_why
def split(number: str, named: tuple[str, ...], reason: str, author: str | None) -> None:
    """Splits evidence off incident ID: it becomes an incident of its own, with a new number. No total changes."""
    incident_id = edge.incident_id(number)
    engine = edge.open_ledger()
    ruled = ruling.split(engine, incident_id, named, _act(author, reason))
    _say(
        engine,
        ruled,
        f"INC-{ruled.split_id} was split off INC-{incident_id} and is charged with {ruled.split_cause}; "
        f"INC-{incident_id} is charged with {ruled.cause}",
    )


@click.command()
@click.argument("number", metavar="ID")
@click.argument("text", metavar="TEXT")
@_AUTHOR
def note(number: str, text: str, author: str | None) -> None:
    """Keeps a note TEXT on incident ID. It changes no figure."""
    incident_id = edge.incident_id(number)
    engine = edge.open_ledger()
    ruled = ruling.note(engine, incident_id, _act(author, text, "the note"))
    _say(engine, ruled, f"INC-{incident_id} has a note")


COMMANDS = (attribute, merge, split, note)


def _act(author: str | None, reason: str, flag: str = "--reason") -> Act:
    act = edge.act("ruling", _text(flag, reason))
    if author is None:
        return act
    name = _text("--author", author)
    if name == BY_RULES:
        raise BadInput(f"--author: '{BY_RULES}' is what the ledger calls its own rules; give a person's name")
    return replace(act, author=name)


def _text(flag: str, text: str) -> str:
    try:
        plain = short_text(text)
    except ValueError as exc:
        raise BadInput(f"{flag}: {exc}") from exc
    if not plain:
        raise BadInput(f"{flag}: is blank")
    return plain


def _say(engine: Engine, ruled: Ruled, words: str) -> None:
    if not ruled.done.changed:
        click.echo(f"that was ruled already, in these words; the ledger stays at revision {ruled.done.rev}")
    else:
        click.echo(f"{words}; revision {ruled.done.rev}")
        edge.say_corrections(engine, ruled.done.rev)
