"""Clients that die, and clients that meet: SIGKILL in the middle, a cut connection, two writers, a stopped writer."""

from __future__ import annotations

import os
import pty
import select
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, text

from tests.conftest import _fresh_database
from tests.faults.acts import EVIDENCE, FLEET, MORE, client, digest, holds, snapshot
from tests.store.ledgers import tiling
from warehouse.store.revisions import WRITER_LOCK


def told(url: str, folder: Path, *arguments: str) -> None:
    running = client(url, folder, *arguments)
    out, err = running.communicate(timeout=120)
    assert (running.returncode, err) == (0, ""), out


@pytest.fixture
def urls(debian_server: str, tmp_path: Path) -> tuple[str, str]:
    """Two ledgers with the same fleet: one to harm, one to compare with."""
    for name, content in (("fleet", FLEET), ("evidence", EVIDENCE), ("more", MORE)):
        (tmp_path / f"{name}.csv").write_text(content)
    found = _fresh_database(debian_server), _fresh_database(debian_server)
    for url in found:
        told(url, tmp_path, "fleet", "load", "fleet.csv")
    return found


@pytest.fixture
def engines(urls: tuple[str, str]) -> Iterator[tuple[Engine, Engine]]:
    opened = tuple(create_engine(url.replace("postgresql:", "postgresql+psycopg:")) for url in urls)
    yield opened[0], opened[1]
    for engine in opened:
        engine.dispose()


def import_all(url: str, folder: Path) -> None:
    for name in ("evidence", "more"):
        told(url, folder, "import", "evidence", f"{name}.csv")


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.1])
def test_a_killed_client(urls: tuple[str, str], engines: tuple[Engine, Engine], tmp_path: Path, seconds: float) -> None:
    """SIGKILL so long after the act began leaves all of it or nothing, and holds no lock; a rerun heals."""
    before = snapshot(engines[0])
    running = client(urls[0], tmp_path, "import", "evidence", "evidence.csv")
    watching = psycopg.connect(urls[0], autocommit=True)
    _await_writer(watching, running.pid)
    time.sleep(seconds)
    running.kill()
    running.communicate()
    _await_end(watching, running.pid)
    watching.close()
    with engines[0].connect() as connection:
        revisions = connection.execute(text("select count(*) from revision")).scalar_one()
    assert revisions == 2 or snapshot(engines[0]) == before
    for url in urls:
        import_all(url, tmp_path)
    assert digest(tiling(engines[0])) == digest(tiling(engines[1]))
    holds(engines[0])


_OURS = "select count(*) from pg_stat_activity where datname = current_database() and application_name = %s"
_WRITES = _OURS + " and pid in (select pid from pg_locks where locktype = 'advisory' and objid = %s and granted)"


def _await_writer(connection: psycopg.Connection[tuple[int]], pid: int) -> None:
    deadline = time.monotonic() + 60
    while not connection.execute(_WRITES, [f"gpu-minutes {pid}", WRITER_LOCK]).fetchone()[0]:  # type: ignore[index]
        assert time.monotonic() < deadline, "it never began to write"
        time.sleep(0.001)


def _await_end(connection: psycopg.Connection[tuple[int]], pid: int) -> None:
    deadline = time.monotonic() + 60
    while connection.execute(_OURS, [f"gpu-minutes {pid}"]).fetchone()[0]:  # type: ignore[index]
        assert time.monotonic() < deadline, "its session never ended"
        time.sleep(0.02)


@pytest.mark.parametrize("files", [("evidence", "more"), ("evidence", "evidence")], ids=["other files", "one file"])
def test_two_writers(
    urls: tuple[str, str], engines: tuple[Engine, Engine], tmp_path: Path, files: tuple[str, str]
) -> None:
    """They are put in order by the lock: both end well, and the ledger is that of one after the other."""
    both = [client(urls[0], tmp_path, "import", "evidence", f"{name}.csv") for name in files]
    for running in both:
        _, err = running.communicate(timeout=120)
        assert (running.returncode, err) == (0, "")
    for name in files:
        told(urls[1], tmp_path, "import", "evidence", f"{name}.csv")
    assert digest(tiling(engines[0])) == digest(tiling(engines[1]))
    with engines[0].connect() as connection:
        revs = connection.execute(text("select array_agg(rev order by recorded_at, rev) from revision")).scalar_one()
    assert sorted(revs) == list(range(1, 1 + len({*files}) + 1))
    holds(engines[0])


def test_a_writer_that_waits_says_for_whom(urls: tuple[str, str], tmp_path: Path) -> None:
    """On a terminal, after two seconds; who holds the lock may never go on, and is named so that it can be ended."""
    holder = psycopg.connect(urls[0], application_name="a stopped writer")
    holder.execute("select pg_advisory_xact_lock(%s)", [WRITER_LOCK])
    ours, theirs = pty.openpty()
    running = client(urls[0], tmp_path, "import", "evidence", "evidence.csv", stderr=theirs)
    os.close(theirs)
    said = ""
    deadline = time.monotonic() + 60
    while "waiting" not in said or "\n" not in said:
        assert time.monotonic() < deadline, said
        if select.select([ours], [], [], 1)[0]:
            said += os.read(ours, 4096).decode()
    assert said.startswith("gpu-minutes: waiting for the one writer of the ledger: a stopped writer, database process")
    assert f"process {holder.info.backend_pid}, since 20" in said
    holder.rollback()
    holder.close()
    assert running.wait(timeout=60) == 0
    running.communicate()
    os.close(ours)


def test_a_stopped_writer_blocks_nobody_silently(urls: tuple[str, str], tmp_path: Path) -> None:
    """Stopped by SIGSTOP it holds the lock; readers go on, the next writer waits, and goes on when it is ended."""
    first = client(urls[0], tmp_path, "import", "evidence", "evidence.csv")
    watching = psycopg.connect(urls[0], autocommit=True)
    _await_writer(watching, first.pid)
    first.send_signal(signal.SIGSTOP)
    told(urls[0], tmp_path, "fleet", "show")
    second = client(urls[0], tmp_path, "import", "evidence", "more.csv")
    first.kill()
    first.communicate()
    out, err = second.communicate(timeout=120)
    assert (second.returncode, err) == (0, ""), out
    watching.close()


class Wire:
    """A TCP proxy before a server's socket, that can be cut after so many bytes from the client."""

    def __init__(self, socket_path: str, cut_after: int | None) -> None:
        self._path, self._left = socket_path, cut_after
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.passed = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                theirs, _ = self._listening.accept()
            except OSError:
                return
            ours = socket.socket(socket.AF_UNIX)
            ours.connect(self._path)
            for source, sink, counted in ((theirs, ours, True), (ours, theirs, False)):
                threading.Thread(target=self._pass, args=(source, sink, counted), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, counted: bool) -> None:
        try:
            while data := source.recv(4096):
                if counted:
                    self.passed += len(data)
                    if self._left is not None and self.passed > self._left:
                        break
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def close(self) -> None:
        """Takes no further connection."""
        self._listening.close()


def test_a_cut_connection(urls: tuple[str, str], engines: tuple[Engine, Engine], tmp_path: Path) -> None:
    """Cut in the middle of an act: one clear line, nothing stored, a rerun heals."""
    database, home = urls[0].split("@/")[1].split("?")[0], urls[0].split("host=")[1]
    server = f"{home}/.s.PGSQL.5432"
    before = snapshot(engines[0])
    whole = Wire(f"{home}/.s.PGSQL.5432", None)
    told(f"postgresql://postgres@127.0.0.1:{whole.port}/{database}", tmp_path, "fleet", "show")
    reading = whole.passed
    whole.close()
    for more in (1, 4_000, 16_000):
        wire = Wire(server, reading + more)
        address = f"postgresql://postgres@127.0.0.1:{wire.port}/{database}"
        running = client(address, tmp_path, "import", "evidence", "evidence.csv")
        out, err = running.communicate(timeout=120)
        wire.close()
        assert (running.returncode, out, err.count("\n")) == (1, "", 1), err
        assert "Traceback" not in err
        assert snapshot(engines[0]) == before
    for url in urls:
        import_all(url, tmp_path)
    assert digest(tiling(engines[0])) == digest(tiling(engines[1]))
    holds(engines[0])
