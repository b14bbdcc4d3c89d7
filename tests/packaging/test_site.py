"""The files of a site: closed to the outside, without a default password, and understood by Prometheus."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT

COMPOSE = (ROOT / "compose.yaml").read_text()
TARGETS = """
- targets: [gpu-001.example.net:9844]
- targets: ["10.0.0.9:9844"]
  labels: {node: gpu-002}
"""


def test_everything_is_published_on_loopback_alone() -> None:
    published = re.findall(r"^ +ports:(.*)$", COMPOSE, re.MULTILINE)
    assert len(published) == 3
    assert [line for line in published if not re.fullmatch(r' \["127\.0\.0\.1:\d+:\d+"\]', line)] == []
    assert "network_mode" not in COMPOSE and "privileged: true" not in COMPOSE


def test_no_password_has_a_default() -> None:
    passwords = re.findall(r"^ +\w*PASSWORD: (.*)$", COMPOSE, re.MULTILINE)
    assert len(passwords) == 2
    assert [value for value in passwords if not value.startswith("${GPU_MINUTES_DB_PASSWORD:?")] == []


def test_the_files_that_compose_mounts_are_there() -> None:
    mounted = re.findall(r"- \./(\S+?):/", COMPOSE)
    assert mounted and [name for name in mounted if not (ROOT / name).exists()] == []


def test_prometheus_takes_its_configuration() -> None:
    result = subprocess.run(
        ["promtool", "check", "config", ROOT / "deploy/prometheus.yml"], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("job", ["gpu-minutes", "node"])
def test_every_target_gets_the_label_that_detectors_join_on(tmp_path: Path, job: str) -> None:
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    (tmp_path / f"deploy/targets/{job}.yml").write_text(TARGETS)
    config = str(tmp_path / "deploy/prometheus.yml")
    command = ["promtool", "check", "service-discovery", "--timeout=1s", config, job]
    found = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    assert sorted(target["labels"]["node"] for target in found) == ["gpu-001.example.net", "gpu-002"]


def test_the_rules_are_those_of_the_catalogue() -> None:
    """Over our exporter's series, with the default of every setting."""
    result = subprocess.run(
        [sys.executable, "-m", "warehouse", "rules", "--exporter", "ours"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        check=True,
    )
    assert (ROOT / "deploy/rules/gpu-minutes.yml").read_text() == result.stdout, "run: make docs"
