"""gpu-minutes audit: every act ever, and its place in the chain."""

from __future__ import annotations

import re

import click

from warehouse import views
from warehouse.cli import edge, tables
from warehouse.errors import BadInput

_SHOWN_HEX = 16
_PUBLISHED = re.compile(r"([1-9][0-9]{0,17}):([0-9a-fA-F]{64})")


@click.command("audit")
@click.option("--since", type=edge.REVISION, metavar="REVISION", help="Begin with this revision.")
@click.option("--head", is_flag=True, help="Print REVISION:HEX alone, the chain's value to publish elsewhere.")
@click.option("--verify", "published", metavar="REVISION:HEX", help="Compare a published value; exit 1 if it differs.")
@edge.reading_options
def COMMAND(since: int | None, head: bool, published: str | None, form: str, as_of: int | None) -> int:
    """Shows every act on the ledger, the oldest first: when, who, what, why, and its value in the chain of hashes.

    Each value is made of the one before it and of all that the act wrote, so one that is published elsewhere (mailed,
    printed, signed) vouches for all acts up to it: --verify compares it with what is stored, and gpu-minutes check
    computes what is stored again.
    """
    if (since is not None) + head + (published is not None) > 1:
        raise BadInput("--since, --head and --verify do not go together")
    if published is not None:
        return _verify(published, form, as_of)
    with edge.reading(as_of) as (connection, revision):
        if head:
            log = views.audit(connection, revision.rev, revision.rev)
        else:
            log = views.audit(connection, revision.rev, since or 1)
    columns = [
        "revision", "at", "kind", "author", "what", "reason", "entries_opened", "entries_closed", "postings",
        "engine", "chain",
    ]  # fmt: skip
    rows = [[act[column] for column in columns] for act in log]
    document = {"revision": revision.rev, "acts": log}
    edge.show(form, document, columns, rows, f"{log[-1]['revision']}:{log[-1]['chain']}" if head else _table(log))
    return 0


def _table(log: list[dict[str, object]]) -> str:
    columns = ["rev", "at", "kind", "author", "what and why", "entries", "postings", "chain"]
    rows = [
        [
            act["revision"],
            act["at"],
            act["kind"],
            act["author"],
            f"{act['what']}: {act['reason']}" if act["what"] else act["reason"],
            f"+{act['entries_opened']} -{act['entries_closed']}",
            act["postings"],
            str(act["chain"])[:_SHOWN_HEX],
        ]
        for act in log
    ]
    return tables.table(columns, rows, right=[0, 5, 6])


def _verify(published: str, form: str, as_of: int | None) -> int:
    found = _PUBLISHED.fullmatch(published.strip())
    if found is None:
        raise BadInput("--verify: give REVISION:HEX as gpu-minutes audit --head prints it, with 64 hex digits")
    rev, value = int(found[1]), found[2].lower()
    with edge.reading(as_of) as (connection, revision):
        stored = views.chain_at(connection, rev) if rev <= revision.rev else None
    document = {"revision": rev, "published": value, "stored": stored, "same": stored == value}
    if stored == value:
        said = f"revision {rev} has the published value; that its rows still give it is proven by: gpu-minutes check"
    elif stored is None:
        said = f"there is no revision {rev} in this ledger, the newest is {revision.rev}: acts are missing"
    else:
        said = f"revision {rev} has another value than the published one: it or an act before it was rewritten"
    if stored == value or form != "table":
        edge.show(form, document, list(document), [list(document.values())], said)
    if stored != value:
        click.echo(f"gpu-minutes: {said}", err=True)
    return 0 if stored == value else 1
