"""Real servers for tests: started on loopback or a socket, stopped by whoever started them, by process id."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

DEBIAN_POSTGRES = Path("/usr/lib/postgresql")


def free_port() -> int:
    """Gives a loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(url: str, seconds: float = 20.0) -> None:
    """Waits until a URL answers 200."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            pass
        if time.monotonic() > deadline:
            raise TimeoutError(f"{url} did not answer within {seconds} s")
        time.sleep(0.1)


@contextmanager
def debian_postgres(preload: Path | None = None, environ: Mapping[str, str] | None = None) -> Iterator[str]:
    """Runs the distribution's own PostgreSQL on a socket; gives its address without a database name.

    Args:
        preload: a library that stands before the C library in the server.
        environ: what else the server's environment holds; `{home}` stands for the folder of this server.
    """
    versions = sorted(DEBIAN_POSTGRES.glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    assert versions, "PostgreSQL is missing; install it: apt-get install postgresql"
    binaries = versions[-1].parent
    home = Path(tempfile.mkdtemp(prefix="gm-postgres-"))
    user = "postgres" if os.geteuid() == 0 else None
    try:
        home.chmod(0o755)
        data = home / "data"
        data.mkdir()
        if user:
            owner = pwd.getpwnam(user)
            os.chown(data, owner.pw_uid, owner.pw_gid)
            os.chown(home, owner.pw_uid, owner.pw_gid)
        _run([binaries / "initdb", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-N", data], user)
        options = f"-h '' -k {home} -c fsync=off"
        start = [binaries / "pg_ctl", "-D", data, "-w", "-l", home / "log", "-o", options, "start"]
        more = {name: value.replace("{home}", str(home)) for name, value in (environ or {}).items()}
        _run(start, user, more | ({} if preload is None else {"LD_PRELOAD": str(preload)}))
        try:
            yield f"postgresql://postgres@/{{}}?host={home}"
        finally:
            _run([binaries / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop"], user)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _run(command: list[object], user: str | None, environ: Mapping[str, str] | None = None) -> None:
    result = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        user=user,
        cwd="/",
        timeout=60,
        env={**os.environ, **(environ or {})},
    )
    assert result.returncode == 0, result.stderr or result.stdout
