"""A full disk: one clear line, nothing stored; with room again a rerun heals."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from tests.conftest import _fresh_database
from tests.faults.acts import EVIDENCE, FLEET, MORE, client, digest, holds, snapshot
from tests.servers import debian_postgres
from tests.store.ledgers import tiling


@pytest.fixture
def full_disk() -> Iterator[tuple[str, Path]]:
    """The distribution's PostgreSQL with a disk that can be made full; gives its address and the flag that does it."""
    # Not under pytest's own folder: its modes are reset by any other run, and the server is another user.
    with tempfile.TemporaryDirectory(prefix="gm-full-disk-") as folder:
        Path(folder).chmod(0o755)
        library = Path(folder) / "full_disk.so"
        source = Path(__file__).with_name("full_disk.c")
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True, timeout=60)
        environ = {"FULL_DISK_FOLDER": "{home}/data/", "FULL_DISK_FLAG": "{home}/full"}
        with debian_postgres(library, environ) as url:
            yield url, Path(url.split("host=")[1]) / "full"


def told(url: str, folder: Path, *arguments: str) -> tuple[int, str, str]:
    running = client(url, folder, *arguments)
    out, err = running.communicate(timeout=120)
    return running.returncode, out, err


def test_a_full_disk(full_disk: tuple[str, Path], tmp_path: Path) -> None:
    server, flag = full_disk
    for name, content in (("fleet", FLEET), ("evidence", EVIDENCE), ("more", MORE)):
        (tmp_path / f"{name}.csv").write_text(content)
    harmed, quiet = _fresh_database(server), _fresh_database(server)
    for url in (harmed, quiet):
        assert told(url, tmp_path, "fleet", "load", "fleet.csv")[0] == 0
    engine, undisturbed = (create_engine(url.replace("postgresql:", "postgresql+psycopg:")) for url in (harmed, quiet))
    before = snapshot(engine)
    flag.touch()
    code, out, err = told(harmed, tmp_path, "import", "evidence", "evidence.csv")
    assert (code, out, err.count("\n")) == (1, "", 1), err
    assert "No space left on device" in err
    assert "Traceback" not in err
    assert snapshot(engine) == before
    flag.unlink()
    for url in (harmed, quiet):
        for name in ("evidence", "more"):
            code, out, err = told(url, tmp_path, "import", "evidence", f"{name}.csv")
            assert (code, err) == (0, ""), err
    assert digest(tiling(engine)) == digest(tiling(undisturbed))
    holds(engine)
    engine.dispose()
    undisturbed.dispose()
