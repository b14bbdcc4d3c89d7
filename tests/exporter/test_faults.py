"""What the page says while the driver misbehaves: the real exporter over a scripted driver library."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from exporter.collector import NodeState
from exporter.collectors.nvml import NvmlCollector
from exporter.config import Settings
from exporter.inventory import Inventory
from exporter.metrics import FAMILIES
from tests.exporter.conftest import StartExporter
from tests.exporter.fake_nvml import script
from tests.exporter.fake_nvml.script import FakeDriver
from tests.exporter.families import ASSERTED_ELSEWHERE, NOT_ON_H100, REMEMBERED, TWO_CYCLES
from tests.exporter.harness import PROC, Page, request, run_exporter

_EXPECTED = TWO_CYCLES | NOT_ON_H100 | ASSERTED_ELSEWHERE
READINGS = [f.field for f in FAMILIES if f.per_gpu and f.field not in REMEMBERED | _EXPECTED]
# Another way to the same number exists, so that a refusal of this one costs nothing.
_HAS_ANOTHER_WAY = {"replays", "threshold", "margin", "clock_events", "throttle_reasons"}


def readings(page: Page, uuid: str) -> set[str]:
    """Families of readings that a GPU has on a page."""
    return {name for name in READINGS if page.find(name, uuid=uuid)}


def reasons(page: Page, uuid: str) -> dict[str, str]:
    """Reasons of a GPU, without those that a healthy one has."""
    return {field: why for field, why in page.reasons(uuid).items() if field not in _EXPECTED}


def both_up(page: Page) -> bool:
    return list(page.find("gpu_up").values()) == [1.0, 1.0]


@pytest.mark.pain(21, 30)
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (script.GPU_IS_LOST, "lost"),
        (script.RESET_REQUIRED, "reset_required"),
        (script.UNKNOWN, "unknown"),
        (10, "timeout"),
    ],
)
def test_a_gpu_that_is_gone_costs_the_other_nothing(
    start: StartExporter, driver: FakeDriver, code: int, reason: str
) -> None:
    exporter = start()
    exporter.wait(both_up)
    driver.gpu(1).every_return = code
    page = exporter.wait(lambda p: p.find("gpu_down_reason", uuid=driver.uuid(1)) and p.find("gpus_visible"))
    assert page.value("gpu_up", uuid=driver.uuid(1)) == 0
    assert page.labels("gpu_down_reason", uuid=driver.uuid(1))["reason"] == reason
    assert readings(page, driver.uuid(1)) == set()
    assert page.labels("gpu_info", uuid=driver.uuid(1))["index"] == "1"
    assert page.value("gpu_up", uuid=driver.uuid(0)) == 1
    assert readings(page, driver.uuid(0)) == set(READINGS)
    assert not page.find("gpu_down_reason", uuid=driver.uuid(0))
    assert (page.value("gpus_expected"), page.value("gpus_visible")) == (2, 1)
    driver.gpu(1).every_return = 0
    page = exporter.wait(both_up)
    assert readings(page, driver.uuid(1)) == set(READINGS)


def test_one_reading_that_says_lost_takes_the_whole_gpu_down(start: StartExporter, driver: FakeDriver) -> None:
    exporter = start()
    exporter.wait(both_up)
    driver.gpu(0).returns_for("power", script.GPU_IS_LOST)
    page = exporter.wait(lambda p: p.find("gpu_down_reason", uuid=driver.uuid(0), reason="lost"))
    assert readings(page, driver.uuid(0)) == set()


def test_after_a_reset_nothing_known_from_before_holds(start: StartExporter, driver: FakeDriver) -> None:
    driver.gpu(0).ecc_off()
    exporter = start()
    page = exporter.wait(both_up)
    ecc = ("gpu_ecc_errors_total", "gpu_sram_ecc_threshold_exceeded")
    assert reasons(page, driver.uuid(0)) == dict.fromkeys(ecc, "not_supported")
    driver.gpu(0).every_return = script.RESET_REQUIRED
    exporter.wait(lambda p: not both_up(p))
    driver.gpu(0).ecc_on()
    driver.gpu(0).every_return = 0
    page = exporter.wait(both_up)
    assert readings(page, driver.uuid(0)) == set(READINGS)


@pytest.mark.pain(23)
def test_a_snapshot_that_is_not_fresh_serves_no_readings(
    driver: FakeDriver, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LD_LIBRARY_PATH", "FAKE_NVML_STATE"):
        monkeypatch.setenv(name, env[name])
    collector = NvmlCollector(Settings(), NodeState(Inventory()))
    try:
        collector.cycle()
        collector.health.finished_s = now_s = time.monotonic()
        fresh = {sample.family.field for sample in collector.samples(True, now_s)}
        stale = {sample.family.field for sample in collector.samples(False, now_s)}
    finally:
        collector.stop()
    assert fresh >= set(READINGS)
    assert not stale & set(READINGS)
    assert {"gpu_up", "gpu_down_reason", "gpu_info", "gpus_expected"} <= stale


@pytest.mark.pain(21, 26)
def test_a_lost_gpu_survives_a_restart_and_a_shorter_count(
    start: StartExporter, driver: FakeDriver, tmp_path: Path
) -> None:
    keep = f"--path.inventory={tmp_path / 'inventory.json'}"
    exporter = start(keep)
    exporter.wait(both_up)
    assert exporter.stop() == 0
    driver.state.gpus = 1
    page = start(keep).wait(lambda p: p.find("gpus_visible"))
    assert page.value("gpu_up", uuid=driver.uuid(1)) == 0
    assert page.labels("gpu_down_reason", uuid=driver.uuid(1))["reason"] == "missing"
    assert (page.value("gpus_expected"), page.value("gpus_visible")) == (2, 1)


@pytest.mark.pain(22, 23, 24, 27)
def test_a_driver_call_that_hangs_for_ever_costs_the_readings_and_nothing_else(
    start: StartExporter, driver: FakeDriver, tmp_path: Path
) -> None:
    proc = tmp_path / "proc"
    shutil.copytree(PROC, proc)
    exporter = start(f"--path.procfs={proc}")
    exporter.wait(both_up)
    # Ready is when every collector has had its first cycle, which may be a moment after the GPUs are up.
    end_s = time.monotonic() + 10
    while request(exporter.port, "/-/ready")[0] != 200 and time.monotonic() < end_s:
        time.sleep(0.1)
    assert request(exporter.port, "/-/ready")[0] == 200
    driver.gpu(0).hang("power")
    exporter.wait(lambda p: p.value("nvml_worker_stuck") == 1)
    (proc / "pressure" / "io").write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=123000000\n")
    exporter.wait(lambda p: p.value("node_pressure_stall_seconds_total", resource="io", kind="some") == 123)
    began_s = time.monotonic()
    page = exporter.page()
    assert time.monotonic() - began_s < 1.0
    for index in (0, 1):
        assert page.value("gpu_up", uuid=driver.uuid(index)) == 0
        assert page.labels("gpu_down_reason", uuid=driver.uuid(index))["reason"] == "timeout"
        assert readings(page, driver.uuid(index)) == set()
    assert page.value("nvml_worker_stuck_seconds") > 0.5
    assert page.value("collect_success", collector="nvml") == 0
    assert page.value("collect_errors_total", collector="nvml", reason="timeout") >= 1
    assert page.value("gpus_expected") == 2
    assert not page.find("gpus_visible")
    assert page.value("collect_success", collector="xid") == 1
    assert request(exporter.port, "/-/healthy")[0] == 200
    assert request(exporter.port, "/-/ready")[0] == 503
    driver.gpu(0).hang("power", on=False)
    page = exporter.wait(both_up)
    assert page.value("nvml_worker_stuck") == 0
    assert page.value("nvml_worker_stuck_seconds") == 0


def test_a_stuck_process_gets_one_replacement_and_no_more(start: StartExporter, driver: FakeDriver) -> None:
    exporter = start("--collector.nvml.replace-after=1", "--no-collector.xid")
    exporter.wait(both_up)
    driver.gpu(0).hang("uuid")
    end_s = time.monotonic() + 10
    while len(exporter.children()) < 2 and time.monotonic() < end_s:
        time.sleep(0.1)
    time.sleep(2.5)
    assert len(exporter.children()) == 2
    assert exporter.page().value("nvml_worker_stuck") == 1
    driver.gpu(0).hang("uuid", on=False)
    exporter.wait(lambda p: both_up(p) and len(exporter.children()) == 1)


def test_a_process_that_misses_a_gpu_is_started_anew(start: StartExporter, driver: FakeDriver) -> None:
    """A GPU that came back is seen by a new initialisation alone; the others are read on all the while."""
    exporter = start("--collector.nvml.recycle-after=1", "--no-collector.xid")
    exporter.wait(both_up)
    children = exporter.children()
    driver.gpu(1).every_return = script.GPU_IS_LOST
    exporter.wait(lambda p: p.value("gpu_up", uuid=driver.uuid(1)) == 0 and exporter.children() != children)
    page = exporter.wait(lambda p: p.value("collect_success", collector="nvml") == 1)
    assert page.value("gpu_up", uuid=driver.uuid(0)) == 1
    assert page.labels("gpu_down_reason", uuid=driver.uuid(1))["reason"] == "lost"


@pytest.mark.pain(28)
def test_an_initialisation_that_hangs_is_under_the_deadline_too(start: StartExporter, driver: FakeDriver) -> None:
    driver.state.init_hangs = 1
    exporter = start()
    page = exporter.wait(lambda p: p.value("nvml_worker_stuck") == 1)
    assert page.value("nvml_return_code") == -1
    assert not page.find("gpu_up")
    driver.state.init_hangs = 0
    assert exporter.wait(both_up).value("nvml_return_code") == 0


@pytest.mark.pain(30, 48)
@pytest.mark.parametrize("code", [9, script.LIB_RM_VERSION_MISMATCH, script.UNKNOWN])
def test_a_driver_that_does_not_start_says_why_and_is_picked_up_later(
    start: StartExporter, driver: FakeDriver, code: int
) -> None:
    driver.state.init_return = code
    exporter = start()
    page = exporter.wait(lambda p: p.value("nvml_return_code") == code)
    assert not page.find("gpu_up")
    assert not page.find("gpus_visible")
    assert page.value("nvml_worker_stuck") == 0
    driver.state.init_return = 0
    exporter.wait(both_up)


def test_a_driver_library_that_crashes_is_tried_again_until_it_works(start: StartExporter, driver: FakeDriver) -> None:
    driver.state.init_aborts = 1
    exporter = start()
    page = exporter.wait(lambda p: p.value("collect_errors_total", collector="nvml", reason="worker") >= 3)
    assert page.value("nvml_return_code") == -1
    assert page.value("nvml_worker_stuck") == 0
    assert not page.find("gpu_up")
    driver.state.init_aborts = 0
    exporter.wait(both_up)


def test_a_driver_process_that_ends_is_replaced_in_the_next_cycles(start: StartExporter, driver: FakeDriver) -> None:
    exporter = start()
    exporter.wait(both_up)
    for child in exporter.children():
        os.kill(child, signal.SIGTERM)
    page = exporter.wait(lambda p: p.value("collect_errors_total", collector="nvml", reason="worker") >= 1)
    exporter.wait(both_up)
    driver.raise_xid(0, 48)
    page = exporter.wait(lambda p: p.value("collect_success", collector="xid") == 1)
    driver.raise_xid(0, 48)
    page = exporter.wait(lambda p: p.value("gpu_xid_events_total", uuid=driver.uuid(0), xid="48", source="nvml") >= 1)
    assert page.value("gpu_up", uuid=driver.uuid(0)) == 1


def test_a_driver_that_goes_away_is_evidence_of_down(start: StartExporter, driver: FakeDriver) -> None:
    exporter = start()
    exporter.wait(both_up)
    driver.state.count_return = driver.state.init_return = 9
    page = exporter.wait(lambda p: p.value("nvml_return_code") == 9)
    assert {dict(k)["reason"] for k in page.find("gpu_down_reason")} == {"driver"}
    assert len(page.find("gpu_down_reason")) == 2


@pytest.mark.parametrize(
    ("function", "code", "reason"),
    [
        *((function, script.NOT_SUPPORTED, "not_supported") for function in (*script.READINGS, "field_values")),
        ("power", script.NO_PERMISSION, "no_permission"),
        ("power", script.DEPRECATED, "not_supported"),
        ("clock", script.UNKNOWN, "unknown"),
    ],
)
def test_any_one_function_may_be_refused(
    driver: FakeDriver, env: dict[str, str], function: str, code: int, reason: str
) -> None:
    driver.gpu(0).returns_for(function, code)
    page = Page(run_exporter("--once", env=env).stdout)
    assert both_up(page)
    why = reasons(page, driver.uuid(0))
    if function in _HAS_ANOTHER_WAY and code == script.NOT_SUPPORTED:
        assert why == {}
    else:
        assert why and set(why.values()) == {reason}
    absent = set(READINGS) - readings(page, driver.uuid(0))
    assert absent == {field for field in why if "/" not in field}
    for field in why:
        if "/" in field:
            name, label = field.split("/", 1)
            rows = [dict(k) for k in page.find(name, uuid=driver.uuid(0))]
            assert not [row for row in rows if set(label.split("/")) <= set(row.values())]
    assert reasons(page, driver.uuid(1)) == {}
    assert readings(page, driver.uuid(1)) == set(READINGS)


def test_impossible_and_blank_values_are_dropped_and_counted(start: StartExporter, driver: FakeDriver) -> None:
    gpu, uuid = driver.gpu(0), driver.uuid(0)
    gpu.utilization_percent = 4294967295
    gpu.power_mw = 2147483634
    gpu.temperature_c = 999
    exporter = start()
    page = exporter.wait(both_up)
    assert page.value("collect_errors_total", collector="nvml", reason="out_of_range") >= 2
    assert page.value("collect_errors_total", collector="nvml", reason="blank") >= 1
    assert reasons(page, uuid) == {
        "gpu_utilization_ratio": "out_of_range",
        "gpu_power_watts": "blank",
        "gpu_temperature_celsius/gpu": "out_of_range",
    }
    assert not page.find("gpu_utilization_ratio", uuid=uuid)
    gpu.utilization_percent, gpu.power_mw, gpu.temperature_c = 50, 100_000, 40
    page = exporter.wait(lambda p: not reasons(p, uuid))
    assert page.value("gpu_utilization_ratio", uuid=uuid) == 0.5
    assert page.value("gpu_power_watts", uuid=uuid) == 100


def test_counters_are_passed_on_raw_through_a_reset(start: StartExporter, driver: FakeDriver) -> None:
    exporter = start()
    exporter.wait(both_up)
    driver.gpu(0).energy_mj = 1500
    page = exporter.wait(lambda p: p.value("gpu_energy_joules_total", uuid=driver.uuid(0)) < 100)
    assert page.value("gpu_energy_joules_total", uuid=driver.uuid(0)) == 1.5


@pytest.mark.pain(46)
def test_corrected_errors_are_a_counter_that_a_rate_can_be_taken_of(start: StartExporter, driver: FakeDriver) -> None:
    gpu, uuid = driver.gpu(0), driver.uuid(0)
    gpu.ecc[0][0][0] = 1_000
    exporter = start()
    where = {"uuid": uuid, "kind": "corrected", "scope": "volatile", "location": "all"}
    exporter.wait(lambda p: both_up(p) and p.value("gpu_ecc_errors_total", **where) == 1_000)
    gpu.ecc[0][0][0] += 17_657 * 60
    page = exporter.wait(lambda p: p.value("gpu_ecc_errors_total", **where) != 1_000)
    assert page.value("gpu_ecc_errors_total", **where) == 1_060_420
    assert page.value("gpu_ecc_errors_total", uuid=uuid, kind="uncorrected", scope="volatile", location="all") == 0


@pytest.mark.pain(21, 26)
def test_a_gpu_that_is_lost_before_it_was_ever_seen_is_missed_all_the_same(
    start: StartExporter, driver: FakeDriver
) -> None:
    driver.gpu(1).every_return = script.GPU_IS_LOST
    page = start().wait(lambda p: p.find("gpus_visible"))
    assert (page.value("gpus_expected"), page.value("gpus_visible")) == (2, 1)
    assert page.reasons()["gpu_up"] == "lost"
    assert list(page.find("gpu_up").values()) == [1.0]
