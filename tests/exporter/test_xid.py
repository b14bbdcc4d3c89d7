"""XIDs from the driver's events, and the process that waits for them: the real exporter over a scripted driver."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

import pytest

from exporter.metrics import WATCHED_XIDS
from tests.exporter.conftest import StartExporter
from tests.exporter.fake_nvml import script
from tests.exporter.fake_nvml.script import FakeDriver
from tests.exporter.harness import Exporter, Page, run_exporter

FIELD = "gpu_xid_events_total/nvml"


def ready(page: Page) -> bool:
    """Whether both GPUs are up and their events are waited for."""
    waits = page.find("collect_success", collector="xid")
    return list(page.find("gpu_up").values()) == [1.0, 1.0] and list(waits.values()) == [1.0]


def seen(page: Page, uuid: str) -> dict[int, float]:
    """Counts by XID that are not 0, as the driver's events told them."""
    rows = page.find("gpu_xid_events_total", uuid=uuid, source="nvml")
    return {int(dict(key)["xid"]): value for key, value in rows.items() if value}


def event_processes(exporter: Exporter) -> list[int]:
    """Process ids of the children that wait for events."""
    return [pid for pid in exporter.children() if b"events" in exporter.command_line(pid)]


def until(condition: Callable[[], object], timeout_s: float = 20.0) -> None:
    """Waits until something holds."""
    end_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end_s, "the condition did not come true"
        time.sleep(0.05)


def raise_until_seen(exporter: Exporter, driver: FakeDriver, index: int, xid: int) -> None:
    """Raises an XID again and again until one is counted: the driver keeps none for a process that still starts."""

    def raised_and_seen() -> bool:
        driver.raise_xid(index, xid)
        time.sleep(0.2)
        return xid in seen(exporter.page(), driver.uuid(index))

    until(raised_and_seen)


@pytest.mark.pain(1, 2, 3, 4)
def test_a_burst_of_xids_is_counted_one_by_one_on_the_right_gpu(start: StartExporter, driver: FakeDriver) -> None:
    exporter = start()
    page = exporter.wait(ready)
    rows = page.find("gpu_xid_events_total", uuid=driver.uuid(0), source="nvml")
    assert {int(dict(key)["xid"]) for key in rows} == set(WATCHED_XIDS)
    assert set(rows.values()) == {0.0}
    assert not page.find("gpu_xid_last_timestamp_seconds")
    driver.raise_xid(0, *([62, 45, 31, 31, 150] * 10))
    driver.raise_xid(1, 79)
    before_s = time.time()
    page = exporter.wait(lambda p: seen(p, driver.uuid(1)))
    assert seen(page, driver.uuid(0)) == {62: 10, 45: 10, 31: 20, 150: 10}
    assert seen(page, driver.uuid(1)) == {79: 1}
    at_s = page.value("gpu_xid_last_timestamp_seconds", uuid=driver.uuid(1), xid="79")
    assert before_s - 1 < at_s <= time.time()
    time.sleep(1.2)
    later = exporter.page()
    assert seen(later, driver.uuid(1)) == {79: 1}
    assert later.value("gpu_xid_last_timestamp_seconds", uuid=driver.uuid(1), xid="79") == at_s
    told = [line for line in exporter.stop_and_read_log().splitlines() if "xid source=nvml" in line]
    assert [line.split(" xid=")[1].split()[0] for line in told] == ["62", "45", "31", "31", "150"] * 10 + ["79"]


@pytest.mark.pain(5)
def test_an_xid_of_a_gpu_that_falls_off_is_told_together_with_up_0(start: StartExporter, driver: FakeDriver) -> None:
    exporter = start()
    exporter.wait(ready)
    driver.gpu(1).every_return = script.GPU_IS_LOST
    driver.raise_xid(1, 79)
    page = exporter.wait(lambda p: not ready(p) and seen(p, driver.uuid(1)))
    assert page.value("gpu_up", uuid=driver.uuid(1)) == 0
    assert seen(page, driver.uuid(1)) == {79: 1}


@pytest.mark.pain(47)
def test_an_xid_94_counts_without_any_ecc_error(start: StartExporter, driver: FakeDriver) -> None:
    exporter = start()
    before = exporter.wait(ready).find("gpu_ecc_errors_total", uuid=driver.uuid(0))
    driver.raise_xid(0, 94)
    page = exporter.wait(lambda p: seen(p, driver.uuid(0)) == {94: 1})
    assert before and page.find("gpu_ecc_errors_total", uuid=driver.uuid(0)) == before


def test_a_mig_instance_is_in_the_log_record_and_in_no_label(start: StartExporter, driver: FakeDriver) -> None:
    exporter = start()
    exporter.wait(ready)
    driver.raise_xid(0, 94, gi=5)
    driver.raise_xid(0, 43)
    driver.raise_xid(0, 1, kind=1024)  # an event of another type is no XID
    driver.raise_xid(0, 44)
    page = exporter.wait(lambda p: 44 in seen(p, driver.uuid(0)))
    assert seen(page, driver.uuid(0)) == {94: 1, 43: 1, 44: 1}
    told = [line for line in exporter.stop_and_read_log().splitlines() if "xid source=nvml" in line]
    start_of = f"xid source=nvml slot=0000:19:00 uuid={driver.uuid(0)} xid="
    assert [line.split('msg="')[1].split(" at=")[0] for line in told] == [
        f"{start_of}94 gi=5",
        f"{start_of}43",
        f"{start_of}44",
    ]


@pytest.mark.pain(12)
@pytest.mark.parametrize(
    ("code", "reason"), [(script.NOT_SUPPORTED, "not_supported"), (script.NO_PERMISSION, "no_permission")]
)
def test_a_gpu_whose_events_are_refused_has_no_row_and_a_reason(
    driver: FakeDriver, env: dict[str, str], code: int, reason: str
) -> None:
    driver.gpu(0).returns_for("register_events", code)
    page = Page(run_exporter("--once", env=env).stdout)
    assert page.reasons(driver.uuid(0))[FIELD] == reason
    assert not page.find("gpu_xid_events_total", uuid=driver.uuid(0), source="nvml")
    assert page.find("gpu_xid_events_total", uuid=driver.uuid(0), source="kmsg")
    assert FIELD not in page.reasons(driver.uuid(1))
    assert page.find("gpu_xid_events_total", uuid=driver.uuid(1), source="nvml")
    assert page.value("collect_success", collector="xid") == 1


@pytest.mark.pain(48)
def test_a_gpu_that_cannot_be_registered_yet_is_picked_up_later(start: StartExporter, driver: FakeDriver) -> None:
    driver.gpu(1).returns_for("register_events", script.UNKNOWN)
    exporter = start("--collector.xid.register-interval=1")
    exporter.wait(lambda p: ready(p) and p.reasons(driver.uuid(1)).get(FIELD) == "unknown")
    driver.gpu(1).returns_for("register_events", 0)
    exporter.wait(lambda p: FIELD not in p.reasons(driver.uuid(1)))
    driver.raise_xid(1, 31)
    page = exporter.wait(lambda p: seen(p, driver.uuid(1)))
    assert seen(page, driver.uuid(1)) == {31: 1}


@pytest.mark.pain(48)
def test_a_gpu_that_fell_off_and_came_back_is_registered_anew(start: StartExporter, driver: FakeDriver) -> None:
    exporter = start("--collector.xid.recycle-after=1")
    exporter.wait(ready)
    before = event_processes(exporter)
    assert len(before) == 1
    driver.gpu(1).every_return = script.GPU_IS_LOST
    exporter.wait(lambda p: p.value("gpu_up", uuid=driver.uuid(1)) == 0)
    time.sleep(2.0)
    assert event_processes(exporter) == before  # nothing to gain while it is gone
    driver.gpu(1).every_return = 0
    exporter.wait(lambda p: ready(p) and event_processes(exporter) not in ([], before))
    raise_until_seen(exporter, driver, 1, 31)


@pytest.mark.pain(22, 25)
def test_an_event_process_whose_wait_hangs_is_replaced_once(start: StartExporter, driver: FakeDriver) -> None:
    exporter = start("--collector.xid.deadline=3", "--collector.xid.replace-after=3")
    exporter.wait(ready)
    driver.raise_xid(0, 31)
    exporter.wait(lambda p: seen(p, driver.uuid(0)) == {31: 1})
    first = event_processes(exporter)
    driver.state.wait_hangs = 1
    until(lambda: len(event_processes(exporter)) == 2)
    page = exporter.wait(lambda p: p.value("collect_success", collector="xid") == 0)
    assert seen(page, driver.uuid(0)) == {31: 1}  # what was counted stays
    assert page.value("collect_errors_total", collector="xid", reason="timeout") >= 1
    assert list(page.find("gpu_up").values()) == [1.0, 1.0]
    time.sleep(7.0)
    assert len(event_processes(exporter)) == 2 and first[0] in event_processes(exporter)
    driver.state.wait_hangs = 0
    exporter.wait(lambda p: ready(p) and len(event_processes(exporter)) == 1)
    raise_until_seen(exporter, driver, 0, 32)


@pytest.mark.pain(22, 25)
def test_a_gpu_whose_registration_hangs_costs_the_events_of_no_other(start: StartExporter, driver: FakeDriver) -> None:
    driver.gpu(0).hang("register_events")
    exporter = start("--collector.xid.deadline=3", "--collector.xid.replace-after=3")
    page = exporter.wait(ready, timeout_s=30)
    assert page.reasons(driver.uuid(0))[FIELD] == "timeout"
    assert not page.find("gpu_xid_events_total", uuid=driver.uuid(0), source="nvml")
    assert FIELD not in page.reasons(driver.uuid(1))
    assert len(event_processes(exporter)) == 2
    driver.raise_xid(1, 79)
    page = exporter.wait(lambda p: seen(p, driver.uuid(1)) == {79: 1})
    driver.gpu(0).hang("register_events", on=False)
    exporter.wait(lambda p: ready(p) and FIELD not in p.reasons(driver.uuid(0)) and len(event_processes(exporter)) == 1)
    raise_until_seen(exporter, driver, 0, 31)


@pytest.mark.pain(30)
def test_an_event_set_that_breaks_is_built_anew_ever_more_slowly(start: StartExporter, driver: FakeDriver) -> None:
    driver.state.wait_return = script.UNKNOWN
    exporter = start()
    started_s: dict[int, float] = {}

    def four_starts() -> bool:
        for pid in event_processes(exporter):
            started_s.setdefault(pid, time.monotonic())
        return len(started_s) == 4

    until(four_starts, timeout_s=60)
    gaps_s = [later - earlier for earlier, later in pairwise(started_s.values())]
    assert all(gap_s > least_s for gap_s, least_s in zip(gaps_s, (0.9, 1.9, 3.9), strict=True))
    page = exporter.page()
    assert page.value("collect_success", collector="xid") == 0
    assert page.value("collect_errors_total", collector="xid", reason="driver") >= 2
    driver.state.wait_return = 0
    exporter.wait(ready)
    raise_until_seen(exporter, driver, 0, 31)
