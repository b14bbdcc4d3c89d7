"""Where the demo keeps its things, and the lock that keeps a second demo out."""

from __future__ import annotations

import fcntl
import os
import time
from dataclasses import dataclass
from pathlib import Path

from warehouse.config import Config
from warehouse.demo.process import runs
from warehouse.errors import BadInput

_ENDING_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Layout:
    """The folder of the demo, apart from any real ledger."""

    root: Path

    @property
    def config(self) -> Config:
        """Gives the settings of the demo's own ledger: always embedded."""
        return Config(self.root, None, None)

    @property
    def history(self) -> Path:
        """Gives the folder of the files that were imported."""
        return self.root / "history"

    @property
    def logs(self) -> Path:
        """Gives the folder of the children's logs."""
        return self.root / "logs"

    @property
    def prometheus(self) -> Path:
        """Gives the folder of Prometheus: configuration and data."""
        return self.root / "prometheus"

    @property
    def lock(self) -> Path:
        """Gives the file that a running demo holds locked, with its process id inside."""
        return self.root / "demo.lock"


def demo_layout(config: Config) -> Layout:
    """Gives the demo's folder under the home."""
    return Layout(config.home / "demo")


def take_lock(layout: Layout) -> int:
    """Gives the descriptor of the locked file; waits for a demo that was killed and is still being cleared away.

    Raises:
        BadInput: when a demo runs there, or the folder cannot be used.
    """
    try:
        layout.root.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + _ENDING_SECONDS
        while (descriptor := _try_lock(layout.lock)) is None:
            owner = _owner(layout.lock)
            if owner is None or runs(owner, "") or time.monotonic() > deadline:
                raise BadInput(f"a demo already runs under {layout.root} (process {owner or 'unknown'}); stop it first")
            time.sleep(0.2)
    except OSError as exc:
        raise BadInput(f"{layout.root} cannot be used: {exc.strerror}") from exc
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _try_lock(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The file may have been removed between opening and locking; then the lock keeps nobody out.
        if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except BlockingIOError:
        pass
    os.close(descriptor)
    return None


def _owner(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
