"""Where things are: read once from the environment, passed down as one frozen value."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Config:
    """`database_url` None means the embedded PostgreSQL under `home`; `prometheus_url` None means none is set.

    `site_file` names the labels, jobs and thresholds of the site; None means the defaults.
    """

    home: Path
    database_url: str | None
    prometheus_url: str | None
    site_file: Path | None = None

    @property
    def postgres_dir(self) -> Path:
        """Gives the data folder of the embedded server."""
        return self.home / "postgres"


def load() -> Config:
    """Reads `GPU_MINUTES_HOME`, `..._DATABASE_URL`, `..._PROMETHEUS_URL` and `..._SITE_FILE`; blank is unset."""
    data_home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    home = os.environ.get("GPU_MINUTES_HOME") or str(Path(data_home) / "gpu-minutes")
    return Config(
        home=Path(home).expanduser().absolute(),
        database_url=os.environ.get("GPU_MINUTES_DATABASE_URL") or None,
        prometheus_url=os.environ.get("GPU_MINUTES_PROMETHEUS_URL") or None,
        site_file=Path(site) if (site := os.environ.get("GPU_MINUTES_SITE_FILE")) else None,
    )
