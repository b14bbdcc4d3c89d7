"""What goes wrong along the way of the soak: each fault begins, must be seen on the page, ends, and leaves no trace."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.exporter.fake_nvml.script import GPU_IS_LOST, RESET_REQUIRED, FakeDriver
from tests.exporter.harness import Page

_DRIVER_NOT_LOADED = 9
_GPU = 3  # the one that is hit; the others must go on


@dataclass(frozen=True, slots=True)
class Scene:
    """What a fault may touch.

    Attributes:
        driver: the scripted driver.
        pid: of the exporter.
        jobs: the mapping folder.
    """

    driver: FakeDriver
    pid: int
    jobs: Path


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong.

    Attributes:
        name: as the page of benchmarks has it.
        begin, end: what happens to the driver, or what the operator does.
        seen: whether a page shows it.
    """

    name: str
    begin: Callable[[Scene], None]
    end: Callable[[Scene], None]
    seen: Callable[[Page, str], bool]


def _every(code: int) -> Callable[[Scene], None]:
    def act(scene: Scene) -> None:
        scene.driver.gpu(_GPU).every_return = code

    return act


def _hang(on: bool) -> Callable[[Scene], None]:
    def act(scene: Scene) -> None:
        scene.driver.gpu(_GPU).hang("power", on)

    return act


def _unload(scene: Scene) -> None:
    scene.driver.state.init_return = scene.driver.state.count_return = _DRIVER_NOT_LOADED


def _load(scene: Scene) -> None:
    for index in range(scene.driver.state.gpus):
        scene.driver.gpu(index).energy_mj = 0  # counters begin anew with the driver
    scene.driver.state.init_return = scene.driver.state.count_return = 0


_INSTANCES = ("1g.10gb", "2g.20gb")


def _cut(scene: Scene) -> None:
    scene.driver.gpu(_GPU).cut(*_INSTANCES)


def _join(scene: Scene) -> None:
    gpu = scene.driver.gpu(_GPU)
    gpu.mig_mode = 0
    gpu.returns_for("utilization", 0)
    for at in range(len(_INSTANCES)):
        gpu.activity.destroy_instance(at)


def _send(number: signal.Signals) -> Callable[[Scene], None]:
    def act(scene: Scene) -> None:
        os.kill(scene.pid, number)

    return act


def _hold(scene: Scene) -> None:
    (scene.jobs / str(_GPU)).write_text("4711\n")


def _free(scene: Scene) -> None:
    (scene.jobs / str(_GPU)).unlink()


def _spoil(scene: Scene) -> None:
    (scene.jobs / str(_GPU)).write_bytes(b"\xff\x00")


def _down(reason: str) -> Callable[[Page, str], bool]:
    return lambda page, uuid: bool(page.find("gpu_down_reason", uuid=uuid, reason=reason))


def _left_out(page: Page, uuid: str) -> bool:
    """The hang is told, and a second process reads all the others."""
    others = sum(page.find("gpu_up").values())
    stuck = page.find("nvml_worker_stuck")
    return list(stuck.values()) == [1.0] and others == len(page.find("gpu_up")) - 1


FAULTS = (
    Fault("a GPU lost and back", _every(GPU_IS_LOST), _every(0), _down("lost")),
    Fault("a GPU that wants a reset", _every(RESET_REQUIRED), _every(0), _down("reset_required")),
    Fault("a call that hangs and returns", _hang(True), _hang(False), _left_out),
    Fault("the driver unloaded and loaded", _unload, _load, _down("driver")),
    Fault("the driver let go and taken up", _send(signal.SIGUSR1), _send(signal.SIGUSR2), _down("unknown")),
    Fault(
        "a board cut into MIG instances and whole again",
        _cut,
        _join,
        lambda page, uuid: len(page.find("mig_info", uuid=uuid)) == len(_INSTANCES),
    ),
    Fault(
        "a job that comes and goes",
        _hold,
        _free,
        lambda page, uuid: list(page.find("gpu_allocated", uuid=uuid).values()) == [1.0],
    ),
    Fault(
        "a job file of bytes",
        _spoil,
        _free,
        lambda page, uuid: bool(page.find("field_unavailable", uuid=uuid, field="gpu_allocated", reason="format")),
    ),
)


def hit(scene: Scene) -> str:
    """UUID of the GPU that the faults hit."""
    return scene.driver.uuid(_GPU)


def shape(page: Page) -> frozenset[tuple[str, frozenset[tuple[str, str]]]]:
    """Every series of a page that a fault may take away: a page is normal when it has them all and no other.

    Left out are those that stay by intent, counts of errors and of XIDs, and shares of time, which want a window of
    nearly a second and so stand on one compressed page in twenty.
    """
    return frozenset(
        (sample.name, frozenset(sample.labels.items()))
        for family in page.families.values()
        for sample in family.samples
        if sample.name not in _STAYS and not sample.labels.get("field", sample.name).endswith(_WINDOWED)
    )


_STAYS = {
    "gpuminutes_collect_errors_total",
    "gpuminutes_gpu_xid_events_total",
    "gpuminutes_gpu_xid_last_timestamp_seconds",
}
_WINDOWED = ("_active_ratio", "_occupancy_ratio", "_pcie_bytes_per_second", "_pcie_bytes_per_second/tx", "_second/rx")


def normal(page: Page) -> bool:
    """All GPUs answer, every collector succeeds, nothing is stuck."""
    flags = [*page.find("gpu_up").values(), *page.find("collect_success").values()]
    return bool(flags) and min(flags) == 1.0 and list(page.find("nvml_worker_stuck").values()) == [0.0]
