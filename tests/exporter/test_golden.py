"""Whole pages, byte by byte. Set UPDATE_GOLDEN=1 to write them anew, and read the difference."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from exporter import __version__
from exporter.metrics import FAMILIES
from tests.exporter.fake_nvml import activity, models
from tests.exporter.fake_nvml.script import GPU_IS_LOST, NOT_SUPPORTED, READINGS, RESET_REQUIRED, FakeDriver, Gpu
from tests.exporter.families import REMEMBERED
from tests.exporter.harness import HERE, PROC, Page, build_library, environment, run_exporter

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


def check_told(page: Page) -> None:
    """Every reading of a GPU that answers is on the page, or its absence is, with a reason.

    Of a board without instances nothing of an instance is missing, and sizes of processes have to be asked for.
    """
    for key in [dict(key) for key, up in page.find("gpu_up").items() if up]:
        told = {field.split("/")[0] for field in page.reasons(key["uuid"])}
        assert told <= {family.field for family in FAMILIES}
        cut = bool(page.find("mig_info", uuid=key["uuid"]))
        for family in FAMILIES:
            if family.per_gpu and family.field not in REMEMBERED | {"gpu_process_memory_bytes"}:
                if family.field.startswith("mig_") and not cut:
                    continue
                present = bool(page.find(family.field, uuid=key["uuid"]))
                assert present or family.field in told, f"{family.name} is absent without a reason"
    for family in page.families.values():
        assert all(math.isfinite(sample.value) for sample in family.samples)


def _healthy(driver: FakeDriver) -> None:
    """Leaves everything as it is."""


def _one_lost(driver: FakeDriver) -> None:
    driver.gpu(1).every_return = GPU_IS_LOST


def _reset_required(driver: FakeDriver) -> None:
    driver.gpu(0).every_return = RESET_REQUIRED


def _renumbered(driver: FakeDriver) -> None:
    driver.swap(0, 1)


def _mig(driver: FakeDriver) -> None:
    driver.gpu(0).cut("1g.10gb", "1g.10gb+me", "2g.20gb")


def _each(change: Callable[[Gpu], object]) -> Callable[[FakeDriver], None]:
    def script(driver: FakeDriver) -> None:
        for index in range(driver.state.gpus):
            change(driver.gpu(index))

    return script


def _nothing_supported(gpu: Gpu) -> None:
    for function in (*READINGS, "field_values", *activity.NAMES):
        gpu.returns_for(function, NOT_SUPPORTED)


SCRIPTS: dict[str, Callable[[FakeDriver], None]] = {
    "healthy": _healthy,
    "one_lost": _one_lost,
    "reset_required": _reset_required,
    "renumbered": _renumbered,
    "mig": _mig,
    "ecc_off": _each(Gpu.ecc_off),
    "geforce": _each(models.make_geforce),
    "v100": _each(models.make_v100),
    "b200": _each(models.make_b200),
    "blanks": _each(models.blank_out),
    "nothing_supported": _each(_nothing_supported),
}


@pytest.mark.pain(10, 12, 13, 20)
@pytest.mark.parametrize("name", SCRIPTS)
def test_page(name: str, driver: FakeDriver, env: dict[str, str], tmp_path: Path) -> None:
    keep = f"--path.inventory={tmp_path / 'inventory.json'}"
    run_exporter("--once", keep, env=env)
    SCRIPTS[name](driver)
    page = run_exporter("--once", keep, f"--path.procfs={PROC}", env=env).stdout
    check_told(Page(page))
    check_golden(name, page)


@pytest.mark.pain(12, 16)
def test_page_of_an_old_driver(driver: FakeDriver, tmp_path: Path) -> None:
    library = build_library(tmp_path, without=models.OLD_DRIVER_LACKS)
    driver.state.driver, driver.state.cuda = b"450.248.02", 11000
    for index in (0, 1):
        models.make_v100(driver.gpu(index))
        models.age_driver(driver.gpu(index))
    page = run_exporter("--once", f"--path.procfs={PROC}", env=environment(library, driver.path)).stdout
    check_told(Page(page))
    check_golden("old_driver", page)


def test_page_without_a_driver() -> None:
    page = run_exporter("--once", f"--path.procfs={PROC}", env=environment(None, None)).stdout
    assert "gpuminutes_nvml_return_code 12.0\n" in page
    assert "gpuminutes_gpu" not in page
    check_golden("no_driver", page)
