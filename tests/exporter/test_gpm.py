"""Hardware counters: two samples, windows, what is refused, zeros that cannot be true, and nothing left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter import metrics as m
from exporter.readings import Value
from exporter.suspect import CYCLES, ZeroWatch, works
from tests.exporter.conftest import StartExporter
from tests.exporter.fake_nvml import activity, models, script
from tests.exporter.fake_nvml.script import FakeDriver
from tests.exporter.harness import PROC, Exporter, Page, alone, build_library, environment, run_exporter
from tests.exporter.surveys import HandSurvey, reasons, values
from tests.exporter.test_golden import check_golden

SHARES = {
    "gpu_engine_active_ratio": 0.98,
    "gpu_sm_active_ratio": 0.915,
    "gpu_sm_occupancy_ratio": 0.35,
    "gpu_tensor_active_ratio": 0.5825,
    "gpu_dram_active_ratio": 0.47,
}
_SYMBOLS = ("QueryDeviceSupport", "SampleAlloc", "SampleFree", "SampleGet", "MigSampleGet", "MetricsGet")


def shares(found: dict[str, float]) -> dict[str, float]:
    """Those of `SHARES` that were read."""
    return {name: found[name] for name in SHARES if name in found}


def refused(found: dict[str, str]) -> dict[str, str]:
    """Why those of `SHARES` that were not read were not."""
    return {name: found[name] for name in SHARES if name in found}


# --- two samples -----------------------------------------------------------------------------------------
@pytest.mark.pain(15)
def test_shares_come_with_the_second_cycle_and_nothing_waits_for_them(survey: HandSurvey) -> None:
    first = survey.gpu()
    assert shares(values(first)) == {}
    assert refused(reasons(first)) == dict.fromkeys(SHARES, "no_data")
    second = survey.gpu()
    assert shares(values(second)) == SHARES
    assert refused(reasons(second)) == {}


def test_the_page_with_counters(start: StartExporter) -> None:
    exporter = start(f"--path.procfs={PROC}", *alone("nvml"), "--collector.nvml.deadline=30")
    page = exporter.wait(lambda p: len(p.find("gpu_sm_active_ratio")) == 2)
    check_golden("hopper", page.text)


def test_a_page_of_one_cycle_says_that_it_has_no_data_yet(env: dict[str, str], driver: FakeDriver) -> None:
    page = Page(run_exporter("--once", env=env).stdout)
    assert refused(page.reasons(driver.uuid(0))) == dict.fromkeys(SHARES, "no_data")


@pytest.mark.parametrize(
    ("steps_s", "served"),
    [
        ((5.0,), True),
        ((600.0,), True),
        ((601.0,), False),
        ((601.0, 5.0), True),
        ((0.5,), False),
        ((0.5, 0.5), True),  # the older sample stays while the window is too short
        ((86_400.0,), False),
    ],
)
def test_a_window_is_a_cycle_to_ten_minutes(survey: HandSurvey, steps_s: tuple[float, ...], served: bool) -> None:
    reading = survey.gpu()
    for step_s in steps_s:
        reading = survey.gpu(step_s=step_s)
    assert shares(values(reading)) == (SHARES if served else {})
    assert refused(reasons(reading)) == ({} if served else dict.fromkeys(SHARES, "no_data"))


def test_a_sample_that_failed_begins_anew(survey: HandSurvey, driver: FakeDriver) -> None:
    survey.cycle(2)
    driver.gpu(0).returns_for("gpm_sample", script.UNKNOWN)
    assert refused(reasons(survey.gpu())) == dict.fromkeys(SHARES, "unknown")
    driver.gpu(0).returns_for("gpm_sample", 0)
    assert refused(reasons(survey.gpu())) == dict.fromkeys(SHARES, "no_data")
    assert shares(values(survey.gpu())) == SHARES


# --- refusals and impossible values ----------------------------------------------------------------------
@pytest.mark.pain(15, 16, 32)
def test_before_hopper_they_are_absent_and_asked_for_again_with_the_static_facts_alone(
    survey: HandSurvey, driver: FakeDriver
) -> None:
    driver.gpu(0).activity.gpm_supported = 0
    reading = survey.gpu(count=3)
    assert reading.down is None
    assert shares(values(reading)) == {}
    assert refused(reasons(reading)) == dict.fromkeys(SHARES, "not_supported")
    assert values(reading)["gpu_power_watts"] == 600
    asked = driver.gpu(0).calls_of("gpm_support")
    survey.cycle(100)
    assert driver.gpu(0).calls_of("gpm_support") == asked
    assert driver.gpu(0).calls_of("gpm_sample") == 0
    survey.cycle(30)
    assert driver.gpu(0).calls_of("gpm_support") == 2 * asked
    assert shares(values(survey.gpu(1))) == SHARES


@pytest.mark.pain(15, 16)
def test_a_driver_that_has_no_such_call_costs_nothing_else(tmp_path: Path, driver: FakeDriver) -> None:
    old = build_library(tmp_path, [f"nvmlGpm{name}" for name in _SYMBOLS])
    exporter = Exporter(["--collector.nvml.interval=1"], environment(old, driver.path))
    try:
        page = exporter.wait(lambda p: p.find("gpu_up"))
        assert set(page.find("gpu_up").values()) == {1.0}
        assert refused(page.reasons(driver.uuid(0))) == dict.fromkeys(SHARES, "not_supported")
        assert page.value("gpu_power_watts", uuid=driver.uuid(0)) == 600
    finally:
        exporter.stop()


@pytest.mark.pain(15)
def test_counters_that_hang_do_not_keep_the_exporter_from_starting(start: StartExporter, driver: FakeDriver) -> None:
    driver.gpu(0).hang("gpm_support")
    exporter = start()
    page = exporter.wait(lambda p: p.value("nvml_worker_stuck") == 1)
    assert page.find("exporter_info")
    driver.gpu(0).hang("gpm_support", on=False)
    exporter.wait(lambda p: p.find("gpu_sm_active_ratio", uuid=driver.uuid(0)))


def test_each_metric_has_a_return_code_of_its_own(survey: HandSurvey, driver: FakeDriver) -> None:
    driver.gpu(0).activity.counter_returns[activity.TENSOR] = script.NOT_SUPPORTED
    reading = survey.gpu(count=2)
    assert shares(values(reading)) == {k: v for k, v in SHARES.items() if k != "gpu_tensor_active_ratio"}
    assert refused(reasons(reading)) == {"gpu_tensor_active_ratio": "not_supported"}


@pytest.mark.pain(18)
@pytest.mark.parametrize("percent", [100.5, -0.1, 4294967295.0, float("nan"), float("inf")])
def test_an_impossible_share_is_dropped_and_counted(survey: HandSurvey, driver: FakeDriver, percent: float) -> None:
    driver.gpu(0).activity.counters[activity.SM] = percent
    snapshot = survey.cycle(2)
    assert "gpu_sm_active_ratio" not in values(snapshot.gpus[0])
    assert refused(reasons(snapshot.gpus[0])) == {"gpu_sm_active_ratio": "out_of_range"}
    assert snapshot.dropped == ("out_of_range",)
    driver.gpu(0).activity.counters[activity.SM] = 100.0
    assert values(survey.gpu())["gpu_sm_active_ratio"] == 1.0


@pytest.mark.pain(10, 11)
@pytest.mark.parametrize("blank", [140737488355328.0 + n for n in range(4)])
def test_a_blank_share_is_dropped_and_a_good_one_comes_back(
    survey: HandSurvey, driver: FakeDriver, blank: float
) -> None:
    driver.gpu(0).activity.counters[activity.TENSOR] = blank
    snapshot = survey.cycle(50)
    assert refused(reasons(snapshot.gpus[0])) == {"gpu_tensor_active_ratio": "blank"}
    assert snapshot.dropped == ("blank",)
    driver.gpu(0).activity.counters[activity.TENSOR] = 58.25
    assert shares(values(survey.gpu())) == SHARES


# --- PCIe traffic ----------------------------------------------------------------------------------------
def test_pcie_traffic_comes_from_the_counters_where_the_driver_does_not_count_bytes(
    survey: HandSurvey, driver: FakeDriver
) -> None:
    gpu = driver.gpu(0)
    assert values(survey.gpu(count=2))["gpu_pcie_bytes_per_second/tx"] == 0.0  # bytes are counted, and stand still
    for number in models.PCIE_BYTES:
        gpu.refuse_field(number, script.NOT_SUPPORTED)
    reading = survey.gpu()
    rates = {name: value for name, value in values(reading).items() if name.startswith("gpu_pcie_bytes")}
    assert rates == {"gpu_pcie_bytes_per_second/tx": 2500 * 2**20, "gpu_pcie_bytes_per_second/rx": 3000 * 2**20}
    assert gpu.calls_of("gpm_metrics") == 2  # one question a cycle, for both


def test_a_gpu_that_has_neither_has_no_pcie_traffic(survey: HandSurvey, driver: FakeDriver) -> None:
    driver.gpu(0).activity.gpm_supported = 0
    for number in models.PCIE_BYTES:
        driver.gpu(0).refuse_field(number, script.NOT_SUPPORTED)
    assert reasons(survey.gpu(count=3))["gpu_pcie_bytes_per_second"] == "not_supported"


# --- samples are lent ------------------------------------------------------------------------------------
@pytest.mark.pain(33)
def test_no_sample_is_left_behind(env: dict[str, str], driver: FakeDriver) -> None:
    """Over 1,000 cycles with lost GPUs and instances that come and go: two samples for each thing that is read."""
    survey = HandSurvey(env)
    driver.gpu(1).cut("1g.10gb", "2g.20gb")
    board = driver.gpu(1).activity
    for turn in range(100):
        driver.gpu(0).every_return = script.GPU_IS_LOST if turn % 3 == 1 else 0
        board.destroy_instance(1)
        survey.cycle(5)
        board.make_instance(1, 4, f"MIG-{turn}", "GPU MIG 2g.20gb")
        survey.cycle(5)
        read = 3 + (driver.gpu(0).every_return == 0)
        assert driver.state.gpm_allocated - driver.state.gpm_freed == 2 * read
    assert driver.state.gpm_freed > 200
    survey.close()
    assert driver.state.gpm_allocated == driver.state.gpm_freed


# --- zeros that cannot be true ---------------------------------------------------------------------------
@pytest.mark.pain(14)
def test_a_zero_on_a_working_gpu_is_withheld_and_comes_back_by_itself(survey: HandSurvey, driver: FakeDriver) -> None:
    driver.gpu(0).activity.counters[activity.ENGINE] = 0.0
    assert values(survey.gpu(count=1 + CYCLES - 1))["gpu_engine_active_ratio"] == 0.0
    snapshot = survey.cycle()
    assert "gpu_engine_active_ratio" not in values(snapshot.gpus[0])
    assert refused(reasons(snapshot.gpus[0])) == {"gpu_engine_active_ratio": "suspect"}
    assert snapshot.dropped == ("suspect",)
    assert shares(values(snapshot.gpus[1])) == SHARES
    assert refused(reasons(survey.gpu(count=1000))) == {"gpu_engine_active_ratio": "suspect"}
    driver.gpu(0).activity.counters[activity.ENGINE] = 97.0
    assert values(survey.gpu())["gpu_engine_active_ratio"] == 0.97


@pytest.mark.pain(14)
def test_a_suspect_zero_is_counted_on_the_page(start: StartExporter, driver: FakeDriver) -> None:
    driver.gpu(1).activity.counters[activity.ENGINE] = 0.0
    exporter = start()
    assert (
        exporter.wait(lambda p: p.find("gpu_up")).value("collect_errors_total", collector="nvml", reason="suspect") == 0
    )
    page = exporter.wait(lambda p: p.reasons(driver.uuid(1)).get("gpu_engine_active_ratio") == "suspect")
    assert page.value("collect_errors_total", collector="nvml", reason="suspect") >= 1
    assert not page.find("gpu_engine_active_ratio", uuid=driver.uuid(1))


def test_an_idle_gpu_reads_zero(survey: HandSurvey, driver: FakeDriver) -> None:
    gpu = driver.gpu(0)
    gpu.power_mw, gpu.utilization_percent, gpu.sm_mhz = 75_000, 0, 345
    for metric in (activity.ENGINE, activity.SM, activity.OCCUPANCY, activity.TENSOR, activity.DRAM):
        gpu.activity.counters[metric] = 0.0
    assert shares(values(survey.gpu(count=20))) == dict.fromkeys(SHARES, 0.0)


def board(**readings: float) -> list[Value]:
    """Readings of a board under load, some of them changed; None takes one away."""
    plain: dict[str, tuple[m.Family, tuple[str, ...], float]] = {
        "power": (m.GPU_POWER, (), 600.0),
        "limit": (m.GPU_POWER_LIMIT, ("enforced",), 700.0),
        "utilization": (m.GPU_UTILIZATION, (), 1.0),
        "clock": (m.GPU_CLOCK, ("sm",), 1.98e9),
        "highest": (m.GPU_CLOCK_MAX, ("sm",), 1.98e9),
        "engine": (m.GPU_ENGINE_ACTIVE, (), 0.9),
        "sm": (m.GPU_SM_ACTIVE, (), 0.9),
        "occupancy": (m.GPU_SM_OCCUPANCY, (), 0.3),
        "tensor": (m.GPU_TENSOR_ACTIVE, (), 0.5),
        "dram": (m.GPU_DRAM_ACTIVE, (), 0.4),
    }
    found = {name: readings.get(name, value) for name, (_, _, value) in plain.items()}
    return [Value(plain[n][0].name, plain[n][1], v) for n, v in found.items() if v == v]  # NaN: not read


ABSENT = float("nan")


@pytest.mark.pain(14)
@pytest.mark.parametrize(
    ("readings", "under_load"),
    [
        ({}, True),
        ({"power": 351.0}, True),
        ({"power": 350.0}, False),
        ({"power": ABSENT}, False),
        ({"limit": ABSENT}, False),
        ({"utilization": 0.49}, False),
        ({"utilization": ABSENT}, True),
        ({"clock": 0.98e9}, False),
        ({"highest": ABSENT, "clock": 0.3e9}, True),
    ],
)
def test_what_a_gpu_under_load_is(readings: dict[str, float], under_load: bool) -> None:
    assert works(board(**readings)) is under_load


@pytest.mark.pain(14)
@pytest.mark.parametrize(
    ("readings", "withheld"),
    [
        ({"engine": 0.0}, {m.GPU_ENGINE_ACTIVE}),
        ({"sm": 0.0}, {m.GPU_SM_ACTIVE}),
        (
            {"sm": 0.0, "occupancy": 0.0, "tensor": 0.0, "dram": 0.0},
            {m.GPU_SM_ACTIVE, m.GPU_SM_OCCUPANCY, m.GPU_TENSOR_ACTIVE, m.GPU_DRAM_ACTIVE},
        ),
        ({"tensor": 0.0, "dram": 0.0}, set()),  # a hung collective looks like this
        ({"sm": 0.0, "power": 100.0}, set()),
    ],
)
def test_which_zeros_are_withheld(readings: dict[str, float], withheld: set[m.Family]) -> None:
    watch = ZeroWatch()
    for _ in range(CYCLES - 1):
        kept, away = watch.sift(board(**readings))
        assert (len(kept), away) == (10, ())
    kept, away = watch.sift(board(**readings))
    assert {value.family for value in away} == {family.name for family in withheld}
    assert len(kept) + len(away) == 10
    watch.sift(board())  # one cycle without it
    assert watch.sift(board(**readings))[1] == ()
