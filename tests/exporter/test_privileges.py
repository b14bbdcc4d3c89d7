"""What an exporter without rights says that it misses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from exporter.privileges import limits_of_process
from tests.exporter.harness import environment


def tree(folder: Path, capabilities: str) -> Path:
    status = folder / "proc" / "self" / "status"
    status.parent.mkdir(parents=True)
    status.write_text(f"Name:\tpython\nCapPrm:\t0\nCapEff:\t{capabilities}\nCapBnd:\t0\n")
    (folder / "dev").mkdir()
    (folder / "dev" / "kmsg").touch()
    return folder


@pytest.mark.parametrize(
    ("capabilities", "missing"),
    [("000001ffffffffff", False), ("0000000000080000", False), ("0000000400000000", True), ("0" * 16, True)],
)
def test_the_capability_that_is_asked_for_is_ptrace(capabilities: str, missing: bool, tmp_path: Path) -> None:
    folder = tree(tmp_path, capabilities)
    found = limits_of_process(folder / "proc", folder / "dev")
    assert [line.split(":")[0] for line in found] == (["without CAP_SYS_PTRACE"] if missing else [])


def test_each_thing_that_cannot_be_read_is_a_line(tmp_path: Path) -> None:
    found = limits_of_process(tmp_path / "proc", tmp_path / "dev")
    assert [line.split(":")[0] for line in found] == [
        "without CAP_SYS_PTRACE",
        f"without read access to {tmp_path}/dev/kmsg (CAP_SYSLOG)",
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_nobody_is_told_what_nobody_cannot_read() -> None:
    code = "from exporter.privileges import limits_of_process; print(*limits_of_process(), sep='\\n')"
    ran = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c", code],
        env=environment(None, None),
        capture_output=True,
        text=True,
        check=False,
    )
    if "ModuleNotFoundError" in ran.stderr or "Permission denied" in ran.stderr:
        pytest.skip("nobody can read this checkout")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("without CAP_SYS_PTRACE: ")
