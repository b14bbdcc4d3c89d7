"""Whole pages, byte by byte. Set UPDATE_GOLDEN=1 to write them anew, and read the difference."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from exporter import __version__
from tests.exporter.fake_nvml.script import GPU_IS_LOST, FakeDriver
from tests.exporter.harness import HERE, ROOTS, environment, run_exporter

_VARYING = re.compile(
    r"^(gpuminutes_(?:collect_last_success_timestamp_seconds|collect_duration_seconds)\{.*\}) .*$",
    re.MULTILINE,
)


def masked(page: str) -> str:
    """The page with times, durations and the version replaced by fixed ones."""
    return _VARYING.sub(r"\1 1.0", page).replace(f'version="{__version__}"', 'version="0"')


def check_golden(name: str, page: str) -> None:
    """Compares a page with its golden file; promtool must find nothing wrong with it either."""
    promtool = shutil.which("promtool")
    assert promtool is not None, "promtool is missing: install it with `apt-get install prometheus`"
    command = [promtool, "check", "metrics"]
    linted = subprocess.run(command, input=page, capture_output=True, text=True, check=False)
    assert (linted.returncode, linted.stdout + linted.stderr) == (0, "")
    path = HERE / "golden" / f"{name}.prom"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(masked(page), encoding="utf-8")
    assert masked(page) == path.read_text(encoding="utf-8")


def _healthy(driver: FakeDriver) -> None:
    """Leaves everything as it is."""


def _one_lost(driver: FakeDriver) -> None:
    driver.gpu(1).every_return = GPU_IS_LOST


def _ecc_off(driver: FakeDriver) -> None:
    for index in (0, 1):
        driver.gpu(index).ecc_off()


@pytest.mark.parametrize("script", [_healthy, _one_lost, _ecc_off], ids=["healthy", "one_lost", "ecc_off"])
def test_page(script: Callable[[FakeDriver], None], driver: FakeDriver, env: dict[str, str], tmp_path: Path) -> None:
    keep = f"--path.inventory={tmp_path / 'inventory.json'}"
    run_exporter("--once", keep, env=env)
    script(driver)
    page = run_exporter("--once", keep, *ROOTS, env=env).stdout
    check_golden(script.__name__.lstrip("_"), page)


def test_page_without_a_driver() -> None:
    page = run_exporter("--once", *ROOTS, env=environment(None, None)).stdout
    assert "gpuminutes_nvml_return_code 12.0\n" in page
    assert "gpuminutes_gpu" not in page
    check_golden("no_driver", page)
