"""Symptoms that users of other exporters reported of the driver's readings, on whole pages of the real exporter."""

from __future__ import annotations

import re
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.metrics import FAMILY_BY_NAME, WATCHED_XIDS
from tests.exporter.conftest import StartExporter
from tests.exporter.cycles import Answer, Cycles
from tests.exporter.fake_nvml import models, script
from tests.exporter.fake_nvml.script import MAX_GPUS, FakeDriver, Gpu
from tests.exporter.harness import HERE, PROC, Exporter, Page, build_library, environment, request, run_exporter
from tests.exporter.surveys import HandSurvey
from tests.exporter.test_faults import both_up
from tests.exporter.test_golden import check_told

_SOURCE = "".join(path.read_text() for path in sorted((HERE / "fake_nvml").glob("*.c")))
# Without these no driver library is one: they start and end it, say its version, and find a GPU.
_ESSENTIAL = {"nvmlInitWithFlags", "nvmlInit_v2", "nvmlShutdown", "nvmlErrorString", "nvmlDeviceGetCount_v2"}
_ESSENTIAL |= {
    "nvmlSystemGetDriverVersion",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetPciInfo_v3",
}
_OF_EVENTS = {name for name in re.findall(r"\bnvml\w+", _SOURCE) if "Event" in name and "Clocks" not in name}
_OPTIONAL = sorted(set(re.findall(r"^int (nvml\w+)\(", _SOURCE, re.MULTILINE)) - _ESSENTIAL - _OF_EVENTS)


# --- missing and refused functions -----------------------------------------------------------------------
@pytest.mark.pain(16)
@pytest.mark.slow
@pytest.mark.parametrize("symbol", _OPTIONAL)
def test_a_driver_without_any_one_function_serves_the_rest(driver: FakeDriver, tmp_path: Path, symbol: str) -> None:
    library = build_library(tmp_path, without=[symbol])
    survey = HandSurvey(environment(library, driver.path))  # its cycles are seconds apart, as shares of time want it
    answer = Answer(survey.gpu(count=2))
    survey.close()
    assert answer.reading.down is None
    missing = answer.reasons.keys() - {"gpu_retired_pages", "gpu_retired_pages_pending"}
    assert set(answer.reasons.values()) == {"not_supported"}
    assert len(missing) <= (14 if symbol == "nvmlDeviceGetFieldValues" else 8), missing


# --- counters --------------------------------------------------------------------------------------------
_COUNTERS = ("energy", "replays", "ecc", "nvlink", "link_errors", "pcie_errors", "clock_events")
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(_COUNTERS), st.integers(0, 2**40)),
        st.tuples(st.just("link"), st.integers(0, 17)),
        st.tuples(st.sampled_from(("refuse", "recover", "reload")), st.just(0)),
    ),
    max_size=12,
)


def _take(driver: FakeDriver, gpu: Gpu, step: str, by: int) -> None:
    """One thing that happens to a GPU between two cycles."""
    if step == "energy":
        gpu.energy_mj += by
    elif step == "replays":
        gpu.replays = min(2**31 - 100, gpu.replays + by % 1000)
    elif step == "ecc":
        for scope in (0, 1):
            gpu.ecc[by % 2][scope][by % 3] += by
    elif step == "nvlink":
        gpu.set_field(202, gpu.field_value(202, by % 18) + by, scope=by % 18)
    elif step == "link_errors":
        gpu.set_field(208, gpu.field_value(208, by % 18) + by, scope=by % 18)
    elif step == "pcie_errors":
        gpu.set_field(173 + by % 11, gpu.field_value(173 + by % 11) + by)
    elif step == "clock_events":
        gpu.set_field(74, gpu.field_value(74) + by)
    elif step == "link":
        gpu.link_active[by] = 1 - gpu.link_active[by]
    elif step == "refuse":
        gpu.refuse_field(202, 21, scope=4)
        gpu.returns_for("replays", 21)
    elif step == "recover":
        gpu.set_field(202, gpu.field_value(202, 4), scope=4)
        gpu.returns_for("replays", 0)
    else:
        driver.reload(b"580.95.06")


@pytest.mark.pain(17)
@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=_STEPS)
def test_counters_never_fall_between_two_loads_of_the_driver(
    env: dict[str, str], tmp_path: Path, steps: list[tuple[str, int]]
) -> None:
    driver = FakeDriver(tmp_path / "counted", gpus=1)
    gpu = driver.gpu(0)
    models.make_b200(gpu)
    with ExitStack() as running:

        def load() -> Cycles:
            """A driver is not unloaded while a process uses it, so that each load has a process of its own."""
            running.pop_all().close()
            return running.enter_context(Cycles({**env, "FAKE_NVML_STATE": str(driver.path)}))

        cycles, last = load(), dict[tuple[str, tuple[str, ...]], float]()
        for step, by in [("", 0), *steps]:
            if step:
                _take(driver, gpu, step, by)
            if step == "reload":
                cycles, last = load(), {}
            values = cycles.snapshot().gpus[0].values
            now = {(v.family, v.labels): v.value for v in values if FAMILY_BY_NAME[v.family].kind == "counter"}
            assert not {key for key, value in now.items() if value < last.get(key, 0.0)}, step
            last |= now


def test_a_reload_of_the_driver_starts_counters_anew_under_a_new_version(
    start: StartExporter, driver: FakeDriver
) -> None:
    exporter = start()
    exporter.wait(both_up)
    driver.state.init_return = driver.state.count_return = 9
    exporter.wait(lambda p: p.value("nvml_return_code") == 9)
    driver.reload(b"590.48.01")
    driver.state.init_return = driver.state.count_return = 0
    page = exporter.wait(both_up, timeout_s=30)
    assert page.labels("gpu_info", uuid=driver.uuid(0))["driver"] == "590.48.01"
    assert page.value("gpu_energy_joules_total", uuid=driver.uuid(0)) == 0
    assert page.value("gpu_nvlink_bytes_total", uuid=driver.uuid(0), dir="tx") == 0


def test_a_new_enumeration_moves_the_index_and_no_series(start: StartExporter, driver: FakeDriver) -> None:
    exporter = start()
    before = exporter.wait(both_up)
    driver.gpu(0).energy_mj = 1_000_000
    uuid, slot = driver.uuid(0), before.labels("gpu_info", uuid=driver.uuid(0))["slot"]
    driver.swap(0, 1)
    page = exporter.wait(lambda p: p.labels("gpu_info", uuid=uuid)["index"] == "1")
    assert page.labels("gpu_info", uuid=uuid)["slot"] == slot
    assert page.value("gpu_energy_joules_total", uuid=uuid, slot=slot) == 1000
    assert set(before.find("gpu_up")) == set(page.find("gpu_up"))


# --- which GPUs ------------------------------------------------------------------------------------------
@pytest.mark.pain(21)
@pytest.mark.parametrize("counted", [7, 8])
def test_seven_of_eight_that_answer_are_all_told(library: Path, tmp_path: Path, counted: int) -> None:
    driver = FakeDriver(tmp_path / "eight", gpus=8)
    env, keep = environment(library, driver.path), f"--path.inventory={tmp_path / 'inventory.json'}"
    run_exporter("--once", keep, env=env)
    driver.gpu(7).every_return = script.GPU_IS_LOST
    driver.state.gpus = counted  # a driver may or may not count a lost GPU
    page = Page(run_exporter("--once", keep, env=env).stdout)
    assert (page.value("gpus_expected"), page.value("gpus_visible")) == (8, 7)
    down = [dict(key)["uuid"] for key, up in page.find("gpu_up").items() if up == 0]
    assert down == [driver.uuid(7)]
    check_told(page)


@pytest.mark.pain(12)
def test_xid_families_exist_whatever_the_driver_refuses(driver: FakeDriver, env: dict[str, str]) -> None:
    for function in (*script.READINGS, "field_values", "register_events"):
        driver.gpu(0).returns_for(function, script.NOT_SUPPORTED)
    page = Page(run_exporter("--once", env=env).stdout)
    rows = page.find("gpu_xid_events_total", uuid=driver.uuid(0))
    assert {int(dict(key)["xid"]) for key in rows} == set(WATCHED_XIDS)


@pytest.mark.pain(13)
def test_strings_of_the_driver_stay_labels_whatever_they_hold(driver: FakeDriver, env: dict[str, str]) -> None:
    gpu = driver.gpu(0)
    gpu.name, gpu.serial, gpu.vbios = b'NVIDIA "H200"\n\\ 200', b"N/A", b"\xff\xfe"
    page = Page(run_exporter("--once", env=env).stdout)
    facts = page.labels("gpu_info", uuid=driver.uuid(0))
    assert (facts["model"], facts["serial"], facts["vbios"]) == ('NVIDIA "H200"\n\\ 200', "N/A", "")
    assert page.value("gpu_info", uuid=driver.uuid(0)) == 1


@pytest.mark.pain(31)
def test_of_power_violations_only_their_seconds_are_told(driver: FakeDriver, env: dict[str, str]) -> None:
    options = ("--once", f"--path.procfs={PROC}")
    before = Page(run_exporter(*options, env=env).stdout)
    driver.gpu(0).set_field(models.PERF_POLICY_POWER, 3600 * 10**9)
    after = Page(run_exporter(*options, env=env).stdout)
    seconds = "gpu_clock_event_seconds_total"
    assert after.value(seconds, uuid=driver.uuid(0), reason="sw_power_cap") == 3600

    def others(page: Page) -> set[str]:
        timed = ("collect_last_success", "collect_duration")
        lines = page.text.splitlines()
        return {line for line in lines if seconds not in line and not any(name in line for name in timed)}

    assert others(before) == others(after)


# --- cost ------------------------------------------------------------------------------------------------
def _calls(driver: FakeDriver) -> int:
    return sum(sum(driver.gpu(index).calls) for index in range(MAX_GPUS))


@pytest.mark.pain(32)
def test_scrapes_cause_no_driver_calls(env: dict[str, str], driver: FakeDriver) -> None:
    exporter = Exporter(("--collector.nvml.interval=3600", "--no-collector.xid"), env)
    try:
        exporter.wait(both_up)
        before = _calls(driver)
        assert before > 0
        for _ in range(100):
            assert request(exporter.port, "/metrics")[0] == 200
        assert _calls(driver) == before
    finally:
        exporter.stop()


@pytest.mark.pain(32)
@pytest.mark.parametrize("interval", ["0.005", "0", "5000", "-1", "nan", "5s"])
def test_an_interval_outside_its_span_is_refused(env: dict[str, str], interval: str) -> None:
    """Seconds between 1 and an hour: milliseconds that were copied as seconds lie outside."""
    refused = run_exporter("--once", f"--collector.nvml.interval={interval}", env=env)
    assert refused.returncode == 2
    assert "collector.nvml.interval" in refused.stderr and "Traceback" not in refused.stderr


# --- suspended GPUs --------------------------------------------------------------------------------------
def _suspend(sysfs: Path, slot: str, status: str) -> None:
    folder = sysfs / "bus" / "pci" / "devices" / f"{slot}.0" / "power"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "runtime_status").write_text(status + "\n")


@pytest.mark.pain(35)
def test_a_suspended_gpu_is_left_alone_on_request_and_read_again_when_it_wakes(
    start: StartExporter, driver: FakeDriver, tmp_path: Path
) -> None:
    sysfs, uuid = tmp_path / "sys", driver.uuid(0)
    options = ("--collector.nvml.skip-suspended", f"--path.sysfs={sysfs}", "--collector.nvml.slow-interval=3600")
    exporter = start(*options, "--no-collector.xid")
    slot = exporter.wait(both_up).labels("gpu_info", uuid=uuid)["slot"]
    _suspend(sysfs, slot, "suspended")
    page = exporter.wait(lambda p: not p.find("gpu_up", uuid=uuid))
    assert page.reasons(uuid) == {"gpu_up": "suspended"}
    assert not page.find("gpu_down_reason") and not page.find("gpu_power_watts", uuid=uuid)
    assert page.labels("gpu_info", uuid=uuid)["slot"] == slot
    assert (page.value("gpus_expected"), page.value("gpus_visible")) == (2, 1)
    assert page.value("gpu_up", uuid=driver.uuid(1)) == 1
    calls, other = sum(driver.gpu(0).calls), sum(driver.gpu(1).calls)
    time.sleep(2.5)
    assert sum(driver.gpu(0).calls) == calls
    assert sum(driver.gpu(1).calls) > other
    driver.gpu(0).limit_mw = 300_000
    _suspend(sysfs, slot, "active")
    page = exporter.wait(both_up)
    assert not page.find("field_unavailable", uuid=uuid, field="gpu_up")
    assert page.value("gpu_power_limit_watts", uuid=uuid, kind="enforced") == 300  # asked anew, not remembered


@pytest.mark.pain(35)
def test_by_default_a_suspended_gpu_is_asked(start: StartExporter, driver: FakeDriver, tmp_path: Path) -> None:
    exporter = start(f"--path.sysfs={tmp_path}")
    slot = exporter.wait(both_up).labels("gpu_info", uuid=driver.uuid(0))["slot"]
    _suspend(tmp_path, slot, "suspended")
    calls = sum(driver.gpu(0).calls)
    exporter.wait(lambda p: sum(driver.gpu(0).calls) > calls)
    assert both_up(exporter.page())
