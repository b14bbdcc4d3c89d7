"""The command line: one file per command group, found by name; every error is a line on stderr, never a traceback."""

from __future__ import annotations

import logging
import os
import sys

import click
import psycopg
from sqlalchemy.exc import DBAPIError

from warehouse import __version__
from warehouse.cli.registry import Commands
from warehouse.errors import GpuMinutesError, one_line
from warehouse.ledger.laws import LawBroken


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="gpu-minutes")
def cli() -> None:
    """Says how many GPU-minutes a fleet lost, to what, and what they cost."""


def main() -> None:
    """Runs the command line; exit 0 done, 1 a broken law or a failed job, 2 bad input, 130 interrupted."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Runs one command and gives its exit code."""
    _show_waiting()
    try:
        # Not through `cli.main`, which ends a closed pipe by itself, silently and with exit 1.
        with cli.make_context("gpu-minutes", arguments) as context:
            result = cli.invoke(context)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as exc:
        return exc.exit_code
    except (click.exceptions.Abort, KeyboardInterrupt):
        return 130
    except click.exceptions.NoArgsIsHelpError as exc:
        click.echo(exc.format_message(), err=True)
        return 2
    except click.ClickException as exc:
        return _fail(2, " ".join(exc.format_message().split()).rstrip(".") + _help(exc))
    except GpuMinutesError as exc:
        return _fail(exc.exit_code, *exc.lines)
    except LawBroken as exc:
        return _fail(1, f"a law is broken, so nothing is stored or shown: {exc}")
    except (DBAPIError, psycopg.Error) as exc:
        if isinstance(getattr(exc, "orig", exc), psycopg.errors.InsufficientPrivilege):
            reason = str(getattr(exc, "orig", None) or exc).strip().split("\n", 1)[0]
            return _fail(1, f"this role of the database may not do that: {reason}; see gpu-minutes db grant --help")
        return _fail(1, "the database refused: " + str(getattr(exc, "orig", None) or exc).strip().split("\n", 1)[0])
    except BrokenPipeError:
        # The reader went away, as `| head` does; what is left in the buffer has no one to go to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as exc:
        return _fail(1, f"cannot go on: {exc.strerror or exc}")


def _show_waiting() -> None:
    """Lets a terminal see what a command waits for; a pipe sees results and errors alone."""
    log = logging.getLogger("warehouse")
    if sys.stderr.isatty() and not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("gpu-minutes: %(message)s"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)


def _help(exc: click.ClickException) -> str:
    """Says where help is: that of the command that was called."""
    context = getattr(exc, "ctx", None)
    return f"; see {context.command_path if context else 'gpu-minutes'} --help"


def _fail(code: int, *lines: str) -> int:
    for line in lines:
        click.echo(f"gpu-minutes: {one_line(line)}", err=True)
    return code
