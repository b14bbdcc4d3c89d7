"""Memory of the driver process over as many cycles as fourteen hours have."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from exporter.child import Child
from exporter.readings import Asking, NvmlSnapshot
from tests.exporter import many_cycles as cycles
from tests.exporter.fake_nvml import script
from tests.exporter.fake_nvml.script import FUNCTIONS, FakeDriver

PROCESS_CYCLES = 3_000


@pytest.mark.slow
@pytest.mark.pain(33)
def test_cycles_leave_no_object_behind(env: dict[str, str]) -> None:
    """Resident memory moves in steps of a megabyte and hides a small leak; the objects of the interpreter do not."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.exporter.many_cycles"], env=env, capture_output=True, text=True, check=True
    )
    found = json.loads(ran.stdout)
    assert (found["asked"], found["down"]) == (cycles.CYCLES, cycles.CYCLES // 10)
    assert found["left"] < (cycles.CYCLES - cycles.WARM_UP) // 20, "a leak of one object in twenty cycles"


def _snapshot(child: Child, number: int) -> NvmlSnapshot:
    child.send(number)
    while True:
        message = child.receive(5.0)
        assert message is not None, f"no answer in cycle {number}"
        if not isinstance(message, Asking):
            return message[1]  # type: ignore[no-any-return]


@pytest.mark.slow
@pytest.mark.pain(33)
def test_the_driver_process_keeps_its_size(
    driver: FakeDriver, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same with the pipe: about six fast cycles to a slow one and a hundred to a static one, values that change,
    and a GPU that is lost in every tenth cycle."""
    for name in ("LD_LIBRARY_PATH", "FAKE_NVML_STATE"):
        monkeypatch.setenv(name, env[name])
    child = Child("snapshots", ["--slow-interval=0.006", "--static-interval=0.1"])
    try:
        down = before = 0
        for number in range(1, PROCESS_CYCLES + 1):
            driver.gpu(0).power_mw = 100_000 + number
            driver.gpu(0).energy_mj += number
            driver.gpu(1).every_return = script.GPU_IS_LOST if number % 10 == 5 else 0
            snapshot = _snapshot(child, number)
            down += sum(gpu.down is not None for gpu in snapshot.gpus)
            if number == PROCESS_CYCLES // 4:
                before = child.resident_bytes()
        grown = child.resident_bytes() - before
    finally:
        child.stop()
    assert (driver.gpu(0).calls[FUNCTIONS.index("utilization")], down) == (PROCESS_CYCLES, PROCESS_CYCLES // 10)
    assert before > 10_000_000
    assert grown < 1_000_000, f"the driver process grew by {grown} bytes"
