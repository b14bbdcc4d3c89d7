"""Who holds a GPU, on the page of the real exporter."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.exporter.conftest import StartExporter
from tests.exporter.fake_nvml import script
from tests.exporter.fake_nvml.script import FakeDriver
from tests.exporter.harness import Exporter, Page, environment, request
from tests.exporter.jobs import open_folder
from tests.exporter.kubelet import Kubelet, pod

Series = set[tuple[str, frozenset[tuple[str, str]]]]


def device_series(page: Page) -> Series:
    """Names and labels of everything about a GPU but who holds it."""
    found: Series = set()
    for family in page.families.values():
        for sample in family.samples:
            about_jobs = re.search("gpu_(allocated|workload_info)", " ".join((sample.name, *sample.labels.values())))
            if "uuid" in sample.labels and not about_jobs:
                found.add((sample.name, frozenset(sample.labels.items())))
    return found


def jobs_of(page: Page, uuid: str) -> set[str]:
    return {dict(labels)["job_id"] for labels in page.find("gpu_workload_info", uuid=uuid)}


@pytest.mark.pain(36, 37, 41)
def test_a_job_comes_and_goes_and_no_other_series_changes(
    start: StartExporter, driver: FakeDriver, tmp_path: Path
) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    uuid = driver.uuid(0)
    exporter = start(f"--collector.job.directory={jobs}")
    # Shares of time and rates need two cycles.
    before = exporter.wait(lambda p: p.find("gpu_allocated", uuid=uuid) and len(p.find("gpu_sm_active_ratio")) == 2)
    assert before.value("gpu_allocated", uuid=uuid) == 0
    assert not before.find("gpu_workload_info")
    (jobs / "0").write_text("4711\n")
    during = exporter.wait(lambda p: p.value("gpu_allocated", uuid=uuid) == 1)
    assert jobs_of(during, uuid) == {"4711"}
    labels = during.labels("gpu_workload_info", uuid=uuid)
    assert set(labels) == {"uuid", "slot", "kind", "job_id", "user", "pod", "namespace", "container"}
    assert during.value("gpu_allocated", uuid=driver.uuid(1)) == 0
    (jobs / "0").unlink()
    after = exporter.wait(lambda p: p.value("gpu_allocated", uuid=uuid) == 0)
    assert not after.find("gpu_workload_info")
    assert device_series(before) == device_series(during) == device_series(after)
    workload = {"job_id", "user", "pod", "namespace", "container"}
    assert not [series for series in device_series(during) if workload & set(dict(series[1]))]


@pytest.mark.pain(42)
def test_no_mapping_file_costs_the_page(start: StartExporter, driver: FakeDriver, tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (jobs / "0").write_text("7\n7\n8\n7\n")
    (jobs / driver.uuid(0)).write_text("8\n")
    (jobs / "1").write_bytes(b"\xff\x00")
    exporter = start(f"--collector.job.directory={jobs}")
    page = exporter.wait(lambda p: p.find("gpu_allocated", uuid=driver.uuid(0)))
    assert jobs_of(page, driver.uuid(0)) == {"7", "8"}
    assert not page.find("gpu_allocated", uuid=driver.uuid(1))
    assert page.value("field_unavailable", uuid=driver.uuid(1), field="gpu_allocated", reason="format") == 1
    assert page.value("collect_errors_total", collector="job", reason="format") >= 1
    assert page.value("collect_success", collector="job") == 1
    for file in jobs.iterdir():
        file.unlink()
    page = exporter.wait(lambda p: list(p.find("gpu_allocated").values()) == [0, 0])
    jobs.rmdir()
    page = exporter.wait(lambda p: p.value("collect_success", collector="job") == 0)
    assert not page.find("gpu_allocated")
    assert page.value("field_unavailable", uuid=driver.uuid(0), field="gpu_allocated", reason="directory") == 1


@pytest.mark.pain(41)
def test_a_gpu_that_is_lost_keeps_who_holds_it(start: StartExporter, driver: FakeDriver, tmp_path: Path) -> None:
    (tmp_path / "1").write_text("4711\n")
    exporter = start(f"--collector.job.directory={tmp_path}")
    exporter.wait(lambda p: jobs_of(p, driver.uuid(1)))
    driver.gpu(1).every_return = script.GPU_IS_LOST
    page = exporter.wait(lambda p: p.find("gpu_down_reason", uuid=driver.uuid(1)))
    assert page.value("gpu_allocated", uuid=driver.uuid(1)) == 1
    assert jobs_of(page, driver.uuid(1)) == {"4711"}


def test_nobody_to_ask_is_unknown_and_not_free(start: StartExporter, driver: FakeDriver) -> None:
    page = start().wait(lambda p: p.find("gpu_up") and p.find("collect_success", collector="job"))
    assert not page.find("gpu_allocated")
    for uuid in map(driver.uuid, range(2)):
        assert page.value("field_unavailable", uuid=uuid, field="gpu_allocated", reason="not_found") == 1
        assert page.value("field_unavailable", uuid=uuid, field="gpu_workload_info", reason="not_found") == 1


@pytest.mark.pain(32, 38)
def test_a_slow_kubelet_never_makes_a_scrape_late_and_scrapes_ask_it_nothing(
    start: StartExporter, driver: FakeDriver
) -> None:
    with open_folder() as folder:
        kubelet = Kubelet(folder / "kubelet.sock")
        uuids = [driver.uuid(0), driver.uuid(1)]
        kubelet.offer = {"nvidia.com/gpu": [f"{uuid}::{share}" for uuid in uuids for share in range(2)]}
        kubelet.pods = [pod(name, {"nvidia.com/gpu": [f"{uuids[0]}::{n}"]}) for n, name in enumerate(("one", "two"))]
        kubelet.start()
        try:
            exporter = start(f"--collector.job.pod-resources={kubelet.socket}")
            page = exporter.wait(lambda p: p.find("gpu_allocated", uuid=uuids[0]))
            assert page.value("gpu_allocated", uuid=uuids[0]) == 1
            assert page.value("gpu_allocated", uuid=uuids[1]) == 0
            pods = {dict(labels)["pod"] for labels in page.find("gpu_workload_info", uuid=uuids[0])}
            assert pods == {"one", "two"}
            assert len(page.find("gpu_power_watts", uuid=uuids[0])) == 1
            kubelet.delay_s = 20.0
            asked, began_s, slowest_s = kubelet.asked, time.monotonic(), 0.0
            for _ in range(100):
                at_s = time.monotonic()
                assert request(exporter.port, "/metrics")[0] == 200
                slowest_s = max(slowest_s, time.monotonic() - at_s)
            assert slowest_s < 1.0
            assert kubelet.asked - asked <= 2 * (1 + (time.monotonic() - began_s) / 5.0)
            page = exporter.wait(lambda p: p.value("collect_success", collector="job") == 0, timeout_s=30)
            assert page.value("collect_success", collector="nvml") == 1
            assert not page.find("gpu_allocated")
        finally:
            kubelet.delay_s = 0.0
            kubelet.stop()


@pytest.mark.pain(48)
def test_an_exporter_that_starts_before_the_driver_has_the_allocation_with_the_first_gpu(
    start: StartExporter, driver: FakeDriver, tmp_path: Path
) -> None:
    driver.state.init_return = 9
    (tmp_path / "0").write_text("4711\n")
    exporter = start(f"--collector.job.directory={tmp_path}")
    page = exporter.wait(lambda p: p.find("collect_success", collector="job"))
    assert page.value("collect_success", collector="job") == 1
    assert not page.find("gpu_allocated")
    driver.state.init_return = 0
    page = exporter.wait(lambda p: p.find("gpu_up"), timeout_s=60)
    assert page.value("gpu_allocated", uuid=driver.uuid(0)) == 1
    assert jobs_of(page, driver.uuid(0)) == {"4711"}


@pytest.mark.pain(48)
def test_a_node_without_a_driver_serves_its_page(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("4711\n")
    exporter = Exporter([f"--collector.job.directory={tmp_path}"], environment(None, None))
    try:
        page = exporter.wait(lambda p: p.find("collect_success", collector="job"))
        assert page.value("collect_success", collector="job") == 1
        assert not page.find("gpu_workload_info")
    finally:
        exporter.stop()
