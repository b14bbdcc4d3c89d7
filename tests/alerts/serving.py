"""The service as users run it: the command in a process of its own, on a free port of the loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from tests.conftest import run_cli
from tests.servers import free_port, wait_for


@dataclass(frozen=True)
class Served:
    """A running service. `credentials` is a file that holds the secret of a token, as Alertmanager reads it."""

    url: str
    database_url: str
    credentials: Path
    process: subprocess.Popen[str]

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.database_url) as connection:
            return connection.execute(statement.encode()).fetchall()


@contextmanager
def serving(database_url: str, folder: Path, *options: str, port: int | None = None) -> Iterator[Served]:
    """Runs `gpu-minutes serve` for the length of the block, with a token of its own."""
    made = run_cli(database_url, "token", "create", f"t{free_port()}")
    assert made.code == 0, made.err
    credentials = folder / "token"
    credentials.write_text(made.out)
    credentials.chmod(0o600)
    address = f"127.0.0.1:{port or free_port()}"
    command = [sys.executable, "-c", "from warehouse.cli import main; main()", "serve", "--listen", address, *options]
    environ = os.environ | {"GPU_MINUTES_DATABASE_URL": database_url}
    with (folder / "serve.log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environ)
        try:
            wait_for(f"http://{address}/readyz")
            yield Served(f"http://{address}", database_url, credentials, process)
        finally:
            process.terminate()
            process.wait(20)
            assert process.stdout is not None
            process.stdout.close()
