"""Memory of the driver process over as many cycles as fourteen hours have."""

from __future__ import annotations

import pytest

from exporter.child import Child
from exporter.readings import Asking, NvmlSnapshot
from tests.exporter.fake_nvml import script
from tests.exporter.fake_nvml.script import FUNCTIONS, FakeDriver

CYCLES = 10_000
WARM_UP = 2_000
# 8,000 cycles that leak 64 bytes each would pass this; an unused page here and there stays below it.
MOST_GROWTH_BYTES = 512 * 1024


def _snapshot(child: Child, number: int) -> NvmlSnapshot:
    child.send(number)
    while True:
        message = child.receive(5.0)
        assert message is not None, f"no answer in cycle {number}"
        if not isinstance(message, Asking):
            return message[1]  # type: ignore[no-any-return]


@pytest.mark.slow
@pytest.mark.pain(33)
def test_memory_is_bounded_over_ten_thousand_cycles(
    driver: FakeDriver, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """About six fast cycles to a slow one and a hundred to a static one, as with the default intervals; values
    that change, and a GPU that is lost in every tenth cycle."""
    for name in ("LD_LIBRARY_PATH", "FAKE_NVML_STATE"):
        monkeypatch.setenv(name, env[name])
    child = Child("snapshots", ["--slow-interval=0.006", "--static-interval=0.1"])
    try:
        down = before = 0
        for number in range(1, CYCLES + 1):
            driver.gpu(0).power_mw = 100_000 + number
            driver.gpu(0).energy_mj += number
            driver.gpu(1).every_return = script.GPU_IS_LOST if number % 10 == 0 else 0
            snapshot = _snapshot(child, number)
            assert (snapshot.code, len(snapshot.gpus) + len(snapshot.unidentified)) == (0, 2)
            down += sum(gpu.down is not None for gpu in snapshot.gpus)
            if number == WARM_UP:
                before = child.resident_bytes()
        grown = child.resident_bytes() - before
    finally:
        child.stop()
    assert down == CYCLES // 10
    assert driver.gpu(0).calls[FUNCTIONS.index("utilization")] == CYCLES
    assert before > 10_000_000
    assert grown < MOST_GROWTH_BYTES, f"the driver process grew by {grown} bytes"
