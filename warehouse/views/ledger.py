"""The open ledger of a long-lived reader: read-only snapshots, and every fault as one line fit to show."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError, OperationalError

from warehouse.config import Config
from warehouse.errors import BadInput, GpuMinutesError, Unreachable
from warehouse.ledger.laws import LawBroken
from warehouse.store import connect, migrate, revisions
from warehouse.store.revisions import Revision

_STATEMENT_TIMEOUT_MS = 15_000


class EmptyLedger(GpuMinutesError):
    """Nothing was ever stored: there is no revision to read."""


class BrokenLaw(GpuMinutesError):
    """The figures do not sum as they must, so that none of them is shown."""


class Ledger:
    """A ledger whose server answered and whose schema fits this code; may be shared between threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @classmethod
    def open(cls, config: Config) -> Ledger:
        """Opens the ledger that the configuration names.

        Raises:
            GpuMinutesError: in one line, when no server answers or the schema is of another version.
        """
        with _said_plainly():
            engine = connect.open_engine(config)
            migrate.ready(engine)
            return cls(engine)

    @contextmanager
    def snapshot(self, as_of: int | None = None) -> Iterator[tuple[Connection, Revision]]:
        """Gives a read-only snapshot and the revision to read, the newest unless one is named.

        Raises:
            EmptyLedger: when nothing was ever stored.
            BadInput: when there is no such revision.
            Unreachable: when the server went away, or did not answer in time.
            BrokenLaw: when what is read inside breaks a law of the ledger.
        """
        with _said_plainly(), self._engine.connect() as plain:
            connection = plain.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            connection.execute(text(f"set local statement_timeout = {_STATEMENT_TIMEOUT_MS}"))
            newest = revisions.latest(connection)
            if newest is None:
                raise EmptyLedger("the ledger is empty; begin with: gpu-minutes fleet load FILE, or gpu-minutes demo")
            revision = revisions.latest(connection, as_of)
            if revision is None:
                raise BadInput(f"there is no revision {as_of}; the newest is {newest.rev}")
            yield connection, revision


@contextmanager
def _said_plainly() -> Iterator[None]:
    """Turns what the driver or a law says into one line without addresses and passwords."""
    try:
        yield
    except LawBroken as exc:
        raise BrokenLaw(f"a law of the ledger is broken: {exc}") from exc
    except OperationalError as exc:
        raise Unreachable("the database does not answer: " + _first_line(exc)) from exc
    except DBAPIError as exc:
        raise GpuMinutesError("the database refused: " + _first_line(exc)) from exc


def _first_line(exc: DBAPIError) -> str:
    return str(exc.orig or exc).strip().split("\n", 1)[0]
