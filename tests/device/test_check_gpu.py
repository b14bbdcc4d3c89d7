"""The script for a real GPU, run over the fake driver library, so that it is known to work before there is a GPU."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.device.check_gpu import faults
from tests.device.facts import unit_by_growth
from tests.exporter.fake_nvml.script import GPU_IS_LOST, NO_PERMISSION, NOT_SUPPORTED, FakeDriver
from tests.exporter.harness import build_library, environment

HERE = Path(__file__).parent
ALL_LINKS = 0xFFFFFFFF
SMI = """#!/bin/sh
echo '    Clocks Event Reasons Counters'
echo '        SW Power Capping                  : 7000000 us'
echo '        SW Thermal Slowdown               : 3000 us'
"""


def check(env: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    """Runs the script as its page says."""
    command = [str(HERE / "check_gpu.sh"), "--window=1", *options]
    env = env | {"PYTHON": sys.executable}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=130, check=False)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The report over two GPUs, an nvidia-smi, a libcuda, and a driver of which some things are known."""
    folder = tmp_path_factory.mktemp("device")
    library = build_library(folder, without=["nvmlDeviceGetPersistenceMode"])
    compiler = shutil.which("gcc")
    assert compiler is not None
    cuda = [compiler, "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", str(folder / "libcuda.so.1")]
    subprocess.run([*cuda, str(HERE / "fake_cuda.c")], check=True)
    smi = folder / "nvidia-smi"
    smi.write_text(SMI)
    smi.chmod(0o755)
    driver = FakeDriver(folder / "state", gpus=2)
    driver.state.driver = b"580.95.05"
    gpu = driver.gpu(0)
    gpu.set_field(74, 7_000_000_000)
    gpu.set_field(76, 0)
    gpu.set_field(269, 3_000)
    gpu.refuse_field(270, NO_PERMISSION)
    gpu.set_field(138, 600, scope=ALL_LINKS)
    for link in range(3):
        gpu.set_field(138, 200, scope=link)
    gpu.returns_for("energy", NOT_SUPPORTED)
    stop = threading.Event()

    def run_clock() -> None:
        """The power cap holds all the time: its counter runs with the clock, in nanoseconds."""
        began_s = time.monotonic()
        while not stop.wait(0.005):
            gpu.set_field(74, 7_000_000_000 + int((time.monotonic() - began_s) * 1e9))

    clock = threading.Thread(target=run_clock)
    clock.start()
    try:
        ran = check(environment(library, driver.path) | {"PATH": f"{folder}:{os.environ['PATH']}"})
    finally:
        stop.set()
        clock.join()
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr
    yield ran.stdout


def row(report: str, section: str, first: str) -> list[str]:
    """The cells of a table's row after its first one."""
    part = report.split(f"### {section}\n", 1)[1].split("\n### ", 1)[0]
    found = [line for line in part.splitlines() if line.startswith(f"| {first} |")]
    assert len(found) == 1, f"{section}, {first}: {found}"
    return [cell.strip() for cell in found[0].strip("|").split("|")][1:]


@pytest.mark.slow
def test_the_unit_of_the_counters_is_found_by_the_clock_and_by_nvidia_smi(report: str) -> None:
    for section in ("Counters of held clocks, idle", "Counters of held clocks, busy"):
        number, _, beside, ratio, growth = row(report, section, "SW Power Capping")
        assert (number, beside) == ("74", "7,000,000 us")
        assert 1_000 <= float(ratio) < 20_000  # it has run on since nvidia-smi's number
        assert growth.endswith(": nanoseconds")
        assert row(report, section, "Sync Boost")[4].endswith(": did not grow")
        assert row(report, section, "SW Thermal Slowdown | 269")[3] == "1"
        assert row(report, section, "HW Thermal Slowdown | 270")[1] == "4 no_permission"


@pytest.mark.slow
def test_what_the_driver_supports_is_told_by_its_return_codes(report: str) -> None:
    functions = {
        "nvmlDeviceGetPowerUsage": "0 success",
        "nvmlDeviceGetTotalEnergyConsumption": "0 success (1), 3 not_supported (1)",
        "nvmlDeviceGetPersistenceMode": "13 function_not_found",
    }
    for name, returned in functions.items():
        assert row(report, "Support", name)[1] == returned
    name, scopes, returned = row(report, "Support", "82")
    assert (name, scopes, returned) == ("MEMORY_TEMP", "1", "0 success")


@pytest.mark.slow
def test_the_scope_of_all_links_is_held_against_their_sum(report: str) -> None:
    assert row(report, "Links", "138") == ["600", "200", "600", "3"]


@pytest.mark.slow
def test_the_rest_of_the_report_is_there(report: str) -> None:
    assert "2 x NVIDIA H100 80GB HBM3" in report and "driver 580.95.05" in report
    assert int(row(report, "Cycles", "fast")[0]) == 20
    assert float(row(report, "Cycles", "slow")[1].removesuffix(" ms")) > 0
    assert row(report, "Events", "XidCriticalError")[1] == "0 success"
    assert "Our own load: pid " in report
    assert "This section broke" not in report
    page = report.split("```")[1]
    assert 'gpuminutes_gpu_up{slot="0000:19:00",uuid="..."} 1.0' in page
    assert "GPU-00000000" not in report and "1650000000000" not in report
    assert float(row(report, "Serving", "parent")[0].removesuffix(" MB")) > 5
    assert {"snapshots", "events"} <= {line.split("|")[1].strip() for line in report.splitlines() if line[:2] == "| "}
    assert report.rstrip().endswith("The page is sound.")


@pytest.mark.slow
def test_a_gpu_that_is_down_fails_the_check(library: Path, driver: FakeDriver) -> None:
    driver.gpu(1).every_return = GPU_IS_LOST
    ran = check(environment(library, driver.path))
    assert ran.returncode == 1
    assert "2 GPUs by the driver's count, 1 on the page, 1 of them up" in ran.stdout
    assert "The page is sound." not in ran.stdout


def test_a_machine_without_a_driver_fails_the_check(tmp_path: Path) -> None:
    ran = check(environment(tmp_path, None))
    assert (ran.returncode, ran.stdout.startswith("The driver does not answer")) == (1, True)


@pytest.mark.parametrize(
    ("growth", "wall_s", "unit"),
    [
        (10_000_000_000, 10.0, "nanoseconds"),
        (9_900_000, 10.0, "microseconds"),
        (10_050, 10.0, "milliseconds"),
        (0, 10.0, "did not grow"),
        (5_000_000, 10.0, "500,000 a second: nanoseconds or microseconds"),
        (10**12, 10.0, "100,000,000,000 a second: none of ns, us, ms"),
    ],
)
def test_a_unit_is_named_only_where_the_clock_allows_one(growth: int, wall_s: float, unit: str) -> None:
    assert unit_by_growth(growth, wall_s) == unit


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ("", "0 on the page"),
        ('gpuminutes_gpu_up{uuid="a",slot="b"} 0\n', "1 on the page, 0 of them up"),
        ('gpuminutes_gpu_up{uuid="a",slot="b"} NaN\n', "is nan"),
        ('gpuminutes_gpu_up{uuid="a",slot="b"} 1\nother 1\n', "other is not in the contract"),
        ('gpuminutes_gpu_up{uuid="a",slot="b"} 1\n' * 2, "stands twice"),
        ('gpuminutes_gpu_up{uuid="a" 1\n', "cannot be parsed"),
    ],
)
def test_a_broken_page_is_found(page: str, fault: str) -> None:
    assert any(fault in found for found in faults(page, 1))


def test_a_sound_page_has_no_fault() -> None:
    assert faults('gpuminutes_gpu_up{uuid="a",slot="b"} 1\n', 1) == []
