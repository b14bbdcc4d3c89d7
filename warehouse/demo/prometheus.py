"""Prometheus over the simulated fleet: its configuration and its command line."""

from __future__ import annotations

from pathlib import Path

SCRAPE_S = 5
_RETENTION = "15d"

_CONFIG = """\
# Written by gpu-minutes demo at every start. None of the nodes behind these targets exists.
global:
  scrape_interval: {scrape_s}s
  scrape_timeout: {scrape_s}s
scrape_configs:
  - job_name: gpu-minutes
    http_sd_configs:
      - url: http://{exporter}/targets
        refresh_interval: {scrape_s}s
  # The second witness of each node: only when both are silent is a node down.
  - job_name: node
    http_sd_configs:
      - url: http://{exporter}/targets/host
        refresh_interval: {scrape_s}s
"""


def prometheus_config(exporter: str) -> str:
    """Gives prometheus.yml for an exporter at HOST:PORT."""
    return _CONFIG.format(exporter=exporter, scrape_s=SCRAPE_S)


def prometheus_command(binary: str, config: Path, data: Path, address: str) -> list[str]:
    """Gives the command line: own data folder, loopback only."""
    return [
        binary,
        f"--config.file={config}",
        f"--storage.tsdb.path={data}",
        f"--storage.tsdb.retention.time={_RETENTION}",
        f"--web.listen-address={address}",
        "--log.level=warn",
    ]
