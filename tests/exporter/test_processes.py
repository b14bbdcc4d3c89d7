"""Processes of the GPUs: the structure that changed between drivers, /proc as the judge, series that end."""

from __future__ import annotations

import shutil
from pathlib import Path

import pynvml
import pytest

from exporter.config import PROCFS, Settings
from exporter.processes import PROCESS_MEMORY, host_visible, settle
from exporter.readings import GpuReading, Identity, NvmlSnapshot, Process
from tests.exporter.conftest import StartExporter
from tests.exporter.fake_nvml import script
from tests.exporter.fake_nvml.script import FakeDriver
from tests.exporter.harness import PROC, Page, build_library, environment, run_exporter
from tests.exporter.surveys import HandSurvey, reasons

GIB = 2**30
WITH_MEMORY = "--collector.nvml.process-memory"
A = Identity("GPU-a", "0000:19:00", 0)


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A /proc of a host in which 4001 and 4002 run."""
    found = tmp_path / "proc"
    shutil.copytree(PROC, found)
    for pid, comm in ((4001, b"python3\n"), (4002, b"pt_main_thread\n")):
        add_process(found, pid, comm)
    return found


def add_process(proc: Path, pid: int, comm: bytes) -> None:
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "comm").write_bytes(comm)


def memory(page: Page) -> dict[tuple[str, str], float]:
    """Bytes by process id and command name."""
    rows = {tuple(dict(k)[n] for n in ("pid", "comm")): v for k, v in page.find("gpu_process_memory_bytes").items()}
    return {(pid, comm): value for (pid, comm), value in rows.items()}


# --- what the driver says --------------------------------------------------------------------------------
@pytest.mark.pain(34)
def test_pid_memory_and_instance_stand_where_they_belong(survey: HandSurvey, driver: FakeDriver) -> None:
    assert pynvml.c_nvmlProcessInfo_v3_t is pynvml.c_nvmlProcessInfo_v2_t
    driver.gpu(0).activity.run((4001, 3 * GIB), (4002, None))
    driver.gpu(1).activity.run((4003, GIB), gi=5)
    snapshot = survey.cycle()
    assert snapshot.gpus[0].processes == (Process(4001, 3 * GIB), Process(4002, None))
    assert snapshot.gpus[1].processes == (Process(4003, GIB, gi=5),)
    driver.gpu(0).activity.run()
    assert survey.gpu().processes == ()


@pytest.mark.pain(34)
@pytest.mark.parametrize("missing", ["_v3", "_v2", ""])
def test_older_drivers_have_an_older_call_or_none(tmp_path: Path, driver: FakeDriver, missing: str) -> None:
    symbol = "nvmlDeviceGetComputeRunningProcesses"
    absent = {"_v3": [f"{symbol}_v3"], "_v2": [f"{symbol}_v2", f"{symbol}_v3"], "": []}[missing]
    driver.gpu(0).activity.run((4001, GIB))
    survey = HandSurvey(environment(build_library(tmp_path, absent), driver.path))
    reading = survey.gpu()
    survey.close()
    assert reading.down is None
    assert reading.processes == (None if missing == "_v2" else (Process(4001, GIB),))
    assert reasons(reading).get("gpu_processes") == ("not_supported" if missing == "_v2" else None)


@pytest.mark.pain(34)
def test_a_size_that_cannot_be_is_dropped_and_counted(survey: HandSurvey, driver: FakeDriver) -> None:
    driver.gpu(0).activity.run((4001, 9223372036854775794), (4002, 2**51))
    snapshot = survey.cycle()
    assert snapshot.gpus[0].processes == (Process(4001), Process(4002))
    assert sorted(snapshot.dropped) == ["blank", "out_of_range"]


@pytest.mark.pain(32)
def test_a_refusal_for_good_is_not_asked_again(survey: HandSurvey, driver: FakeDriver) -> None:
    driver.gpu(0).returns_for("processes", script.NOT_SUPPORTED)
    assert reasons(survey.gpu())["gpu_processes"] == "not_supported"
    asked = driver.gpu(0).calls_of("processes")
    survey.cycle(50)
    assert driver.gpu(0).calls_of("processes") == asked
    driver.gpu(0).returns_for("processes", 0)
    assert survey.gpu(count=80).processes == ()


def test_a_board_that_is_lost_while_it_is_asked_is_lost(survey: HandSurvey, driver: FakeDriver) -> None:
    driver.gpu(0).returns_for("processes", script.GPU_IS_LOST)
    assert survey.gpu().down == "lost"


# --- what /proc says -------------------------------------------------------------------------------------
@pytest.mark.pain(34)
def test_a_pid_that_is_not_in_proc_is_dropped_and_counted(env: dict[str, str], driver: FakeDriver, proc: Path) -> None:
    driver.gpu(0).activity.run((4001, 3 * GIB), (4444, 5 * GIB), (4002, GIB))
    page = Page(run_exporter("--once", f"--path.procfs={proc}", WITH_MEMORY, env=env).stdout)
    assert page.value("gpu_processes", uuid=driver.uuid(0)) == 2
    assert page.value("gpu_processes", uuid=driver.uuid(1)) == 0
    assert memory(page) == {("4001", "python3"): 3 * GIB, ("4002", "pt_main_thread"): GIB}
    assert page.value("collect_errors_total", collector="nvml", reason="gone") == 1


@pytest.mark.pain(38)
def test_several_processes_share_a_gpu_and_its_readings_stand_once(
    env: dict[str, str], driver: FakeDriver, proc: Path
) -> None:
    driver.gpu(0).activity.run((4001, GIB), (4002, GIB))
    page = Page(run_exporter("--once", f"--path.procfs={proc}", WITH_MEMORY, env=env).stdout)
    for family in ("gpu_utilization_ratio", "gpu_power_watts", "gpu_energy_joules_total", "gpu_processes"):
        assert len(page.find(family)) == 2
    assert {label for key in page.find("gpu_utilization_ratio") for label, _ in key} == {"uuid", "slot"}


def test_sizes_are_served_on_request_alone(env: dict[str, str], driver: FakeDriver, proc: Path) -> None:
    driver.gpu(0).activity.run((4001, GIB))
    page = Page(run_exporter("--once", f"--path.procfs={proc}", env=env).stdout)
    assert page.value("gpu_processes", uuid=driver.uuid(0)) == 1
    assert memory(page) == {}
    assert 'pid="4001"' not in page.text
    assert not [field for field in page.reasons(driver.uuid(0)) if "process" in field]


@pytest.mark.pain(34)
def test_a_size_that_the_driver_does_not_know_is_absent_with_a_reason(
    env: dict[str, str], driver: FakeDriver, proc: Path
) -> None:
    driver.gpu(0).activity.run((4001, None), (4002, GIB))
    page = Page(run_exporter("--once", f"--path.procfs={proc}", WITH_MEMORY, env=env).stdout)
    assert page.value("gpu_processes", uuid=driver.uuid(0)) == 2
    assert memory(page) == {("4002", "pt_main_thread"): GIB}
    assert page.reasons(driver.uuid(0))["gpu_process_memory_bytes"] == "no_data"


@pytest.mark.pain(43)
def test_the_series_of_a_process_end_with_it(start: StartExporter, driver: FakeDriver, proc: Path) -> None:
    uuid = driver.uuid(0)
    driver.gpu(0).activity.run((4001, GIB), (4002, 2 * GIB))
    exporter = start(f"--path.procfs={proc}", WITH_MEMORY)
    exporter.wait(lambda p: len(memory(p)) == 2)
    shutil.rmtree(proc / "4001")  # dead, while the driver still holds its memory
    page = exporter.wait(lambda p: p.value("gpu_processes", uuid=uuid) == 1)
    assert memory(page) == {("4002", "pt_main_thread"): 2 * GIB}
    driver.gpu(0).activity.run()
    page = exporter.wait(lambda p: p.value("gpu_processes", uuid=uuid) == 0)
    assert "gpu_process_memory_bytes{" not in page.text
    driver.gpu(0).activity.run((4002, 3 * GIB))
    page = exporter.wait(lambda p: p.value("gpu_processes", uuid=uuid) == 1)
    assert memory(page) == {("4002", "pt_main_thread"): 3 * GIB}


@pytest.mark.parametrize(
    ("comm", "shown"),
    [(b'a"b\\c\n', 'a"b\\c'), (b"x)y\n", "x)y"), (b"\xff\xfe\n", "��"), (b"two\nlines\n", "two\nlines")],
)
def test_a_command_name_may_hold_anything(
    env: dict[str, str], driver: FakeDriver, proc: Path, comm: bytes, shown: str
) -> None:
    add_process(proc, 4100, comm)
    driver.gpu(0).activity.run((4100, GIB))
    page = Page(run_exporter("--once", f"--path.procfs={proc}", WITH_MEMORY, env=env).stdout)
    assert memory(page) == {("4100", shown): GIB}


# --- whose processes they are ----------------------------------------------------------------------------
@pytest.mark.pain(34)
def test_an_exporter_that_does_not_see_the_host_says_so_instead_of_counting_wrong(
    env: dict[str, str], driver: FakeDriver, proc: Path
) -> None:
    (proc / "2" / "comm").write_text("sh\n")
    driver.gpu(0).activity.run((4001, GIB), (4444, GIB))
    page = Page(run_exporter("--once", f"--path.procfs={proc}", WITH_MEMORY, env=env).stdout)
    assert not page.find("gpu_processes")
    assert memory(page) == {}
    for index in (0, 1):  # an empty list may be the driver's view of this namespace
        assert page.reasons(driver.uuid(index))["gpu_processes"] == "no_permission"
        assert page.reasons(driver.uuid(index))["gpu_process_memory_bytes"] == "no_permission"
    assert page.value("collect_errors_total", collector="nvml", reason="gone") == 0


@pytest.mark.parametrize(
    ("kthreadd", "status", "visible"),
    [
        ("kthreadd\n", "Name:\tx\nNSpid:\t4242\n", True),
        ("kthreadd\n", "Name:\tx\n", True),
        ("kthreadd\n", None, True),
        ("kthreadd\n", "NSpid:\t4242\t7\n", False),  # the host's /proc in a namespace of our own
        ("bash\n", "NSpid:\t7\n", False),
        (None, "NSpid:\t7\n", False),
    ],
)
def test_when_the_host_is_visible(tmp_path: Path, kthreadd: str | None, status: str | None, visible: bool) -> None:
    for path, text in ((tmp_path / "2" / "comm", kthreadd), (tmp_path / "self" / "status", status)):
        path.parent.mkdir()
        if text is not None:
            path.write_text(text)
    assert host_visible(tmp_path) is visible


def test_a_gpu_that_is_down_or_does_not_say_is_left_as_it_is(proc: Path) -> None:
    settings = Settings({PROCFS: proc, PROCESS_MEMORY: False})
    snapshot = NvmlSnapshot(0, "570.1", (GpuReading(A, "lost"), GpuReading(A, None)))
    assert settle(snapshot, settings) == snapshot


def test_a_process_on_several_instances_counts_once(env: dict[str, str], driver: FakeDriver, proc: Path) -> None:
    driver.gpu(0).activity.run((4001, GIB), (4001, 2 * GIB), gi=3)
    page = Page(run_exporter("--once", f"--path.procfs={proc}", WITH_MEMORY, env=env).stdout)
    assert page.value("gpu_processes", uuid=driver.uuid(0)) == 1
    assert memory(page) == {("4001", "python3"): 3 * GIB}
