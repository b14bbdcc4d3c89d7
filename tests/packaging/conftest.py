"""A wheel built once from what git tracks, and fresh environments to install it into."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def tracked(*patterns: str) -> list[str]:
    """Gives the files that git tracks and that are there, as paths below the root."""
    # A checkout may belong to another user than the one who tests it.
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--", *patterns]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in names.split("\0") if name and (ROOT / name).is_file()]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a clean checkout: untracked files cannot hide that a tracked one is missing."""
    source = tmp_path_factory.mktemp("checkout")
    for name in tracked():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, source / name)
    _run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", source / "dist", source])
    (built,) = (source / "dist").glob("*.whl")
    return built


class Environment:
    """A fresh virtual environment that holds the wheel and sees nothing else but what it is shown."""

    def __init__(self, home: Path) -> None:
        self.home = home
        _run([sys.executable, "-m", "venv", "--without-pip", home])
        self.python = home / "bin/python"
        query = [self.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
        self.site = Path(_run(query).stdout.strip())

    def install(self, wheel: Path) -> None:
        """Installs the wheel alone, from the file."""
        _run(
            [sys.executable, "-m", "pip", "--python", self.python, "--disable-pip-version-check", "install",
             "--no-index", "--no-deps", "--quiet", wheel]
        )  # fmt: skip

    def show(self, folder: Path) -> None:
        """Makes a folder importable, after the environment's own packages."""
        (self.site / "shown.pth").write_text(f"{folder}\n")

    def run(
        self, *command: object, env: dict[str, str] | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program of this environment, by name, away from the checkout."""
        program = self.home / "bin" / str(command[0])
        return _run([program, *command[1:]], env=env, cwd=cwd or self.home)


def _run(
    command: Sequence[object], env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "GPU_MINUTES_", "COV"))}
    result = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=240, env=clean | (env or {}), cwd=cwd
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Environment]:
    """Makes a fresh environment by name."""
    return lambda name: Environment(tmp_path_factory.mktemp(name) / "venv")


@pytest.fixture(scope="session")
def dependencies() -> Path:
    """Where this environment keeps its packages."""
    return Path(sysconfig.get_path("purelib"))
