"""Where things are: read once from the environment, passed down as one frozen value."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Config:
    """`database_url` None means the embedded PostgreSQL under `home`; every other None means that none is set.

    Two files hold what Prometheus wants to see: a bearer token, and further headers. `site_file` names the labels, jobs
    and thresholds of the site, `alertmanager_url` whom to ask for alerts that are kept back.
    """

    home: Path
    database_url: str | None
    prometheus_url: str | None
    prometheus_token_file: Path | None = None
    prometheus_headers_file: Path | None = None
    site_file: Path | None = None
    alertmanager_url: str | None = None

    @property
    def postgres_dir(self) -> Path:
        """Gives the data folder of the embedded server."""
        return self.home / "postgres"


def load() -> Config:
    """Reads the variables that begin with `GPU_MINUTES_`; blank is unset."""
    data_home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    home = os.environ.get("GPU_MINUTES_HOME") or str(Path(data_home) / "gpu-minutes")
    return Config(
        home=Path(home).expanduser().absolute(),
        database_url=os.environ.get("GPU_MINUTES_DATABASE_URL") or None,
        prometheus_url=os.environ.get("GPU_MINUTES_PROMETHEUS_URL") or None,
        prometheus_token_file=_file("GPU_MINUTES_PROMETHEUS_TOKEN_FILE"),
        prometheus_headers_file=_file("GPU_MINUTES_PROMETHEUS_HEADERS_FILE"),
        site_file=_file("GPU_MINUTES_SITE_FILE"),
        alertmanager_url=os.environ.get("GPU_MINUTES_ALERTMANAGER_URL") or None,
    )


def _file(name: str) -> Path | None:
    path = os.environ.get(name)
    return Path(path).expanduser() if path else None
