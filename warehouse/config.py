"""Where things are: read once from the environment, passed down as one frozen value."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Config:
    """`database_url` None means the embedded PostgreSQL under `home`; `prometheus_url` None means none is set."""

    home: Path
    database_url: str | None
    prometheus_url: str | None

    @property
    def postgres_dir(self) -> Path:
        """Gives the data folder of the embedded server."""
        return self.home / "postgres"


def load() -> Config:
    """Reads `GPU_MINUTES_HOME`, `GPU_MINUTES_DATABASE_URL` and `GPU_MINUTES_PROMETHEUS_URL`; blank is unset."""
    data_home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    home = os.environ.get("GPU_MINUTES_HOME") or str(Path(data_home) / "gpu-minutes")
    return Config(
        home=Path(home).expanduser().absolute(),
        database_url=os.environ.get("GPU_MINUTES_DATABASE_URL") or None,
        prometheus_url=os.environ.get("GPU_MINUTES_PROMETHEUS_URL") or None,
    )
