"""Fixtures that all tests share: one server per kind and session, one fresh database per test."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from tests.servers import debian_postgres
from warehouse.cli import run
from warehouse.config import Config
from warehouse.store import connect

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def embedded_server() -> Iterator[str]:
    """The embedded PostgreSQL; gives its address with a place for the database name."""
    # Not under pytest's own folder: its modes are reset by any other run, and the server is another user.
    with tempfile.TemporaryDirectory(prefix="gm-embedded-") as home:
        config = Config(Path(home), None, None)
        engine = connect.open_engine(config)
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            # Nothing here outlives the session, so nothing has to reach the disk.
            for setting in ("fsync", "full_page_writes", "synchronous_commit"):
                connection.execute(text(f"alter system set {setting} = off"))
            connection.execute(text("select pg_reload_conf()"))
        url = engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
        yield url.replace("/postgres?", "/{}?")
        connect.stop_embedded(config)


@pytest.fixture(scope="session")
def debian_server() -> Iterator[str]:
    """The distribution's PostgreSQL; gives its address with a place for the database name."""
    with debian_postgres() as url:
        yield url


def _fresh_database(server: str) -> str:
    name = f"t{os.getpid()}_{next(_numbers)}"
    admin = create_engine(
        server.format("postgres").replace("postgresql:", "postgresql+psycopg:"), isolation_level="AUTOCOMMIT"
    )
    with admin.connect() as connection:
        connection.execute(text(f"create database {name}"))
    admin.dispose()
    return server.format(name)


@pytest.fixture
def database_url(embedded_server: str) -> str:
    """A fresh, empty database on the embedded server."""
    return _fresh_database(embedded_server)


@pytest.fixture(params=["embedded", "debian"])
def any_database_url(request: pytest.FixtureRequest) -> str:
    """A fresh, empty database on each kind of server in turn."""
    return _fresh_database(request.getfixturevalue(f"{request.param}_server"))


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str


Cli = Callable[..., Answer]


def run_cli(url: str, *arguments: object, cwd: Path | None = None, stdin: bytes | None = None) -> Answer:
    """Runs the command as a user would, in a process of its own, on one database."""
    result = subprocess.run(
        [sys.executable, "-c", "from warehouse.cli import main; main()", *map(str, arguments)],
        capture_output=True,
        cwd=cwd,
        input=stdin,
        env=os.environ | {"GPU_MINUTES_DATABASE_URL": url, "PYTHONWARNINGS": "default"},
        timeout=240,
    )
    return Answer(result.returncode, result.stdout.decode(), result.stderr.decode())


@pytest.fixture
def cli(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command line on a fresh database of the embedded server, in a fresh folder, inside this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPU_MINUTES_DATABASE_URL", database_url)

    def call(*arguments: object) -> Answer:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run([str(argument) for argument in arguments])
        return Answer(code, out.getvalue(), err.getvalue())

    return call
