"""The processes that call the driver: when one is left alone, replaced, started anew or let go."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.exporter.conftest import StartExporter
from tests.exporter.fake_nvml.script import FakeDriver
from tests.exporter.harness import request
from tests.exporter.test_faults import READINGS, both_up, readings


@pytest.mark.pain(25)
def test_a_gpu_in_which_the_driver_hangs_is_left_out_while_the_others_are_read_on(
    start: StartExporter, driver: FakeDriver
) -> None:
    exporter = start("--collector.nvml.replace-after=1", "--no-collector.xid")
    exporter.wait(both_up)
    driver.gpu(0).hang("power")
    page = exporter.wait(lambda p: p.find("gpus_visible") and p.value("gpus_visible") == 1)
    assert page.labels("gpu_down_reason")["uuid"] == driver.uuid(0)
    assert page.labels("gpu_down_reason")["reason"] == "timeout"
    assert readings(page, driver.uuid(0)) == set()
    assert page.value("gpu_up", uuid=driver.uuid(1)) == 1
    assert readings(page, driver.uuid(1)) == set(READINGS)
    assert page.value("nvml_worker_stuck") == 1
    assert page.value("nvml_worker_stuck_seconds") >= 1
    assert page.value("gpus_expected") == 2
    assert page.value("collect_success", collector="nvml") == 1
    assert request(exporter.port, "/-/ready")[0] == 200
    driver.gpu(1).power_mw = 123_000  # what is served is of now, not of before the hang
    exporter.wait(lambda p: p.value("gpu_power_watts", uuid=driver.uuid(1)) == 123)
    driver.gpu(0).hang("power", on=False)
    page = exporter.wait(lambda p: both_up(p) and len(exporter.children()) == 1)
    assert page.value("nvml_worker_stuck") == 0


@pytest.mark.pain(25)
def test_a_gpu_that_hangs_from_the_start_is_left_out_where_the_others_are_known(
    start: StartExporter, driver: FakeDriver, tmp_path: Path
) -> None:
    kept = f"--path.inventory={tmp_path / 'inventory.json'}"
    exporter = start(kept)
    exporter.wait(both_up)
    exporter.stop_and_read_log()
    driver.gpu(0).hang("minor")
    exporter = start(kept, "--collector.nvml.replace-after=1", "--no-collector.xid")
    page = exporter.wait(lambda p: p.find("gpus_visible") and p.value("gpus_visible") == 1)
    down = page.labels("gpu_down_reason")
    assert (down["uuid"], down["reason"]) == (driver.uuid(0), "timeout")
    driver.gpu(0).hang("minor", on=False)
    exporter.wait(both_up)


def test_a_hang_before_a_gpu_can_say_who_it_is_is_blamed_on_no_other(start: StartExporter, driver: FakeDriver) -> None:
    driver.gpu(1).hang("handle")
    exporter = start("--collector.nvml.replace-after=1", "--no-collector.xid")
    exporter.wait(lambda p: p.value("nvml_worker_stuck") == 1 and len(exporter.children()) == 2)
    driver.gpu(1).hang("handle", on=False)
    exporter.wait(both_up)
    log = exporter.stop_and_read_log()
    assert "does not answer" in log and " for GPU " not in log


def test_two_gpus_that_hang_leave_two_processes_and_no_more(start: StartExporter, driver: FakeDriver) -> None:
    driver.state.gpus = 3
    exporter = start("--collector.nvml.replace-after=1", "--no-collector.xid")
    exporter.wait(lambda p: p.find("gpus_visible") and p.value("gpus_visible") == 3)
    driver.gpu(0).hang("power")
    exporter.wait(lambda p: p.find("gpus_visible") and p.value("gpus_visible") == 2)
    driver.gpu(2).hang("power")
    exporter.wait(lambda p: not p.find("gpus_visible"))
    time.sleep(3)
    assert len(exporter.children()) == 2
    assert {dict(k)["reason"] for k in exporter.page().find("gpu_down_reason")} == {"timeout"}
    driver.gpu(2).hang("power", on=False)
    exporter.wait(lambda p: p.find("gpus_visible") and p.value("gpus_visible") == 2)
    driver.gpu(0).hang("power", on=False)
    exporter.wait(lambda p: p.find("gpus_visible") and p.value("gpus_visible") == 3)


@pytest.mark.pain(33)
def test_a_process_that_has_grown_is_started_anew(start: StartExporter, driver: FakeDriver) -> None:
    exporter = start("--collector.nvml.recycle-megabytes=1", "--collector.nvml.recycle-after=1", "--no-collector.xid")
    exporter.wait(both_up)
    children = exporter.children()
    page = exporter.wait(lambda p: exporter.children() not in (children, []) and both_up(p))
    assert page.value("collect_errors_total", collector="nvml", reason="worker") == 0
    assert "is started anew" in exporter.stop_and_read_log()


def test_an_operators_number_of_gpus_beats_what_was_seen(start: StartExporter, driver: FakeDriver) -> None:
    page = start("--collector.nvml.expected-gpus=8").wait(both_up)
    assert (page.value("gpus_expected"), page.value("gpus_visible")) == (8, 2)


@pytest.mark.pain(30)
def test_the_driver_is_let_go_on_request_and_taken_up_again(start: StartExporter, driver: FakeDriver) -> None:
    exporter = start()
    exporter.wait(lambda p: both_up(p) and p.find("collect_success", collector="xid"))
    assert len(exporter.children()) == 2
    exporter.process.send_signal(signal.SIGUSR1)
    page = exporter.wait(lambda p: not both_up(p) and not exporter.children())
    assert {dict(k)["reason"] for k in page.find("gpu_down_reason")} == {"unknown"}
    assert page.value("collect_errors_total", collector="nvml", reason="released") >= 1
    assert page.value("nvml_worker_stuck") == 0
    time.sleep(1.5)
    assert exporter.children() == []
    exporter.process.send_signal(signal.SIGUSR2)
    exporter.wait(lambda p: both_up(p) and len(exporter.children()) == 2)


@pytest.mark.pain(48)
def test_it_starts_without_a_gpu_and_picks_up_what_comes(start: StartExporter, driver: FakeDriver) -> None:
    driver.state.gpus = 0
    exporter = start()
    page = exporter.wait(lambda p: p.find("gpus_visible"))
    assert (page.value("gpus_expected"), page.value("gpus_visible")) == (0, 0)
    assert not page.find("gpu_up")
    assert page.value("collect_success", collector="nvml") == 1
    driver.state.gpus = 2
    page = exporter.wait(both_up)
    assert (page.value("gpus_expected"), page.value("gpus_visible")) == (2, 2)
