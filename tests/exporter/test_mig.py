"""MIG: board facts once a board, instance facts in families of their own, and what changes while it runs."""

from __future__ import annotations

import pytest

from exporter.nvml.mig import profile_gb
from exporter.readings import GpuReading, MigInstance
from tests.exporter.conftest import StartExporter
from tests.exporter.fake_nvml import activity, script
from tests.exporter.fake_nvml.script import FakeDriver
from tests.exporter.harness import PROC, Page, alone
from tests.exporter.surveys import HandSurvey, reasons, values
from tests.exporter.test_golden import check_golden

RATIOS = ("mig_sm_active_ratio", "mig_tensor_active_ratio", "mig_dram_active_ratio", "mig_engine_active_ratio")
MIB = 2**20


def of(instance: MigInstance) -> dict[str, float]:
    """Readings of an instance by field and labels."""
    return {"/".join((v.family.removeprefix("gpuminutes_"), *v.labels)): v.value for v in instance.values}


def ratios(instance: MigInstance) -> set[str]:
    """Which of `RATIOS` an instance has."""
    return {name for name in RATIOS if f"{name}/{instance.gi}" in of(instance)}


def profiles(reading: GpuReading) -> list[tuple[int, int, str, str]]:
    return [(one.gi, one.ci, one.uuid[-2:], one.profile) for one in reading.instances]


def instances_seen(page: Page, uuid: str) -> set[str]:
    return {dict(key)["gi"] for key in page.find("mig_info", uuid=uuid)}


@pytest.mark.pain(40)
def test_the_page_of_a_cut_board(start: StartExporter, driver: FakeDriver) -> None:
    driver.gpu(0).cut("1g.10gb", "1g.10gb+me", "2g.20gb")
    exporter = start(f"--path.procfs={PROC}", *alone("nvml"), "--collector.nvml.deadline=30")
    page = exporter.wait(lambda p: len(p.find("mig_sm_active_ratio")) == 3 and p.find("gpu_sm_active_ratio"))
    check_golden("mig_running", page.text)


@pytest.mark.pain(38, 40)
def test_board_facts_stand_once_a_board_so_that_sums_are_right(start: StartExporter, driver: FakeDriver) -> None:
    driver.gpu(0).cut("1g.10gb", "1g.10gb", "2g.20gb")
    exporter = start()
    page = exporter.wait(lambda p: len(p.find("mig_sm_active_ratio")) == 3)
    cut, whole = driver.uuid(0), driver.uuid(1)
    boards_joules = (driver.gpu(0).energy_mj + driver.gpu(1).energy_mj) / 1000
    assert sum(page.find("gpu_energy_joules_total").values()) == boards_joules
    assert sum(page.find("gpu_energy_joules_total", uuid=cut).values()) == driver.gpu(0).energy_mj / 1000
    for family in ("gpu_up", "gpu_power_watts", "gpu_energy_joules_total"):
        assert len(page.find(family)) == 2
    assert not page.find("gpu_utilization_ratio", uuid=cut)
    assert page.reasons(cut)["gpu_utilization_ratio"] == "not_supported"
    assert page.find("gpu_utilization_ratio", uuid=whole)
    assert not [key for name in ("mig_info", "mig_memory_bytes", *RATIOS) for key in page.find(name, uuid=whole)]
    assert {dict(key)["uuid"] for key in page.find("mig_info")} == {cut}
    assert "mig_info" not in page.reasons(whole)


@pytest.mark.pain(40)
def test_each_instance_has_its_own_readings_uuid_and_profile(survey: HandSurvey, driver: FakeDriver) -> None:
    driver.gpu(0).cut("1g.10gb", "1c.3g.40gb", "1g.10gb+me")
    reading = survey.gpu(count=2)
    assert profiles(reading) == [(3, 0, "-0", "1g.10gb"), (4, 0, "-1", "1c.3g.40gb"), (5, 0, "-2", "1g.10gb+me")]
    assert of(reading.instances[1]) == {
        "mig_memory_bytes/4/used": 4928 * MIB,
        "mig_memory_bytes/4/free": 4928 * MIB,
        "mig_memory_bytes/4/reserved": 0,
        "mig_memory_bytes/4/total": 9856 * MIB,
        "mig_sm_active_ratio/4": 0.84,
        "mig_tensor_active_ratio/4": 0.44,
        "mig_dram_active_ratio/4": 0.34,
        "mig_engine_active_ratio/4": 0.94,
    }
    assert not [name for name in reasons(reading) if name.startswith("mig_")]


def test_the_readings_of_a_gpu_instance_stand_once_for_all_its_compute_instances(
    survey: HandSurvey, driver: FakeDriver
) -> None:
    board = driver.gpu(0).activity
    driver.gpu(0).cut("1c.3g.40gb")
    board.make_instance(1, 3, "MIG-b", "GPU MIG 2c.3g.40gb", ci=1)
    reading = survey.gpu(count=2)
    assert [(one.gi, one.ci, bool(one.values)) for one in reading.instances] == [(3, 0, True), (3, 1, False)]
    board.destroy_instance(0)
    assert [(one.gi, one.ci, ratios(one)) for one in survey.gpu().instances] == [(3, 1, set())]
    assert [(one.gi, one.ci, ratios(one)) for one in survey.gpu().instances] == [(3, 1, set(RATIOS))]


# --- while it runs ---------------------------------------------------------------------------------------
@pytest.mark.pain(40)
def test_an_instance_made_anew_begins_anew(survey: HandSurvey, driver: FakeDriver) -> None:
    """The counters of the old and of the new one have nothing in common; their difference would be nonsense."""
    driver.gpu(0).cut("1g.10gb", "1g.10gb")
    before = survey.gpu(count=2)
    assert [ratios(one) for one in before.instances] == [set(RATIOS), set(RATIOS)]
    driver.gpu(0).activity.make_instance(1, 4, "MIG-anew", "GPU MIG 1g.20gb", memory_mib=20000)
    snapshot = survey.cycle()
    first, second = snapshot.gpus[0].instances
    assert (ratios(first), ratios(second), second.uuid, second.profile) == (set(RATIOS), set(), "MIG-anew", "1g.20gb")
    assert {name: why for name, why in reasons(snapshot.gpus[0]).items() if "mig_" in name} == {
        f"{name}/4": "no_data" for name in RATIOS
    }
    later = survey.cycle()
    assert ratios(later.gpus[0].instances[1]) == set(RATIOS)
    assert snapshot.dropped == later.dropped == ()


@pytest.mark.pain(40)
def test_instances_come_and_go_and_mig_is_switched_while_it_runs(start: StartExporter, driver: FakeDriver) -> None:
    gpu, uuid = driver.gpu(0), driver.uuid(0)
    exporter = start()
    page = exporter.wait(lambda p: p.find("gpu_up"))
    assert page.labels("gpu_info", uuid=uuid)["mig_mode"] == "disabled"
    assert not instances_seen(page, uuid)
    gpu.cut("1g.10gb", "1g.10gb")
    page = exporter.wait(lambda p: instances_seen(p, uuid) == {"3", "4"})
    assert page.labels("gpu_info", uuid=uuid)["mig_mode"] == "enabled"
    gpu.activity.destroy_instance(0)
    page = exporter.wait(lambda p: instances_seen(p, uuid) == {"4"})
    assert not page.find("mig_memory_bytes", gi="3")
    gpu.mig_mode = 0
    gpu.returns_for("utilization", 0)
    page = exporter.wait(lambda p: p.find("gpu_utilization_ratio", uuid=uuid))
    assert page.labels("gpu_info", uuid=uuid)["mig_mode"] == "disabled"
    assert not [key for name in ("mig_info", "mig_memory_bytes", *RATIOS) for key in page.find(name)]


def test_a_lost_board_has_no_instances(survey: HandSurvey, driver: FakeDriver) -> None:
    driver.gpu(0).cut("1g.10gb")
    assert survey.gpu(count=2).instances
    driver.gpu(0).every_return = script.GPU_IS_LOST
    lost = survey.gpu()
    assert (lost.down, lost.values, lost.instances) == ("lost", (), ())
    driver.gpu(0).every_return = 0
    assert [ratios(one) for one in survey.gpu().instances] == [set()]
    assert [ratios(one) for one in survey.gpu().instances] == [set(RATIOS)]


def test_a_board_that_is_lost_while_its_instances_are_asked_is_lost(survey: HandSurvey, driver: FakeDriver) -> None:
    driver.gpu(0).cut("1g.10gb")
    driver.gpu(0).returns_for("mig_facts", script.GPU_IS_LOST)
    assert survey.gpu().down == "lost"


# --- what is not said ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("function", "code", "fields"),
    [
        ("mig_count", script.NOT_SUPPORTED, {"mig_info": "not_supported"}),
        ("mig_handle", script.NO_PERMISSION, {"mig_info": "no_permission"}),
        ("mig_facts", script.UNKNOWN, {"mig_info": "unknown"}),
        ("gpm_mig_sample", script.NOT_SUPPORTED, dict.fromkeys(RATIOS, "not_supported")),
    ],
)
def test_what_the_driver_refuses_has_a_reason_and_costs_the_board_nothing(
    survey: HandSurvey, driver: FakeDriver, function: str, code: int, fields: dict[str, str]
) -> None:
    driver.gpu(0).cut("1g.10gb", "1g.10gb")
    driver.gpu(0).returns_for(function, code)
    reading = survey.gpu(count=2)
    assert reading.down is None
    assert {name: why for name, why in reasons(reading).items() if name.startswith("mig_")} == fields
    assert values(reading)["gpu_sm_active_ratio"] == 0.915


@pytest.mark.pain(15, 40)
def test_a_cut_board_from_before_hopper_has_memory_and_no_ratios(survey: HandSurvey, driver: FakeDriver) -> None:
    driver.gpu(0).activity.gpm_supported = 0
    driver.gpu(0).cut("1g.5gb")
    reading = survey.gpu(count=2)
    (instance,) = reading.instances
    assert (ratios(instance), of(instance)["mig_memory_bytes/3/total"]) == (set(), 9856 * MIB)
    assert {why for name, why in reasons(reading).items() if name in RATIOS} == {"not_supported"}
    asked = driver.gpu(0).calls_of("gpm_support")
    survey.cycle(100)
    assert driver.gpu(0).calls_of("gpm_support") == asked


def test_an_impossible_reading_of_an_instance_is_dropped_and_counted(survey: HandSurvey, driver: FakeDriver) -> None:
    driver.gpu(0).cut("1g.10gb", "1g.10gb")
    driver.gpu(0).activity.mig[1].counters[activity.SM] = 1000.0
    snapshot = survey.cycle(2)
    assert [ratios(one) for one in snapshot.gpus[0].instances] == [set(RATIOS), set(RATIOS) - {"mig_sm_active_ratio"}]
    assert reasons(snapshot.gpus[0])["mig_sm_active_ratio/4"] == "out_of_range"
    assert snapshot.dropped == ("out_of_range",)


# --- profiles --------------------------------------------------------------------------------------------
@pytest.mark.pain(40)
def test_a_profile_that_the_name_does_not_tell_comes_from_the_slices(survey: HandSurvey, driver: FakeDriver) -> None:
    board = driver.gpu(0)
    board.cut("1g.10gb")
    board.activity.make_instance(0, 3, "MIG-a", "NVIDIA H100 80GB HBM3")
    three = board.activity.make_instance(1, 4, "MIG-b", "NVIDIA H100 80GB HBM3", memory_mib=40448)
    three.gi_slices, three.ci_slices = 3, 1
    assert [one.profile for one in survey.gpu().instances] == ["1g.10gb", "1c.3g.40gb"]


def test_a_profile_that_nobody_tells_is_empty(survey: HandSurvey, driver: FakeDriver) -> None:
    driver.gpu(0).cut("1g.10gb")
    driver.gpu(0).activity.make_instance(0, 3, "MIG-a", "NVIDIA H100 80GB HBM3")
    driver.gpu(0).returns_for("mig_attributes", script.NOT_SUPPORTED)
    assert [one.profile for one in survey.gpu().instances] == [""]


@pytest.mark.pain(40)
@pytest.mark.parametrize(
    ("memory_mib", "board_mib", "gb"),
    [
        (9856, 81559, 10),  # H100: 1g.10gb, 1g.20gb, 3g.40gb, 7g.80gb
        (20096, 81559, 20),
        (40448, 81559, 40),
        (80896, 81559, 80),
        (4864, 40536, 5),  # A100 40GB: 1g.5gb, 3g.20gb
        (19968, 40536, 20),
        (16384, 143771, 18),  # H200: 1g.18gb, 1g.35gb, 3g.71gb, 7g.141gb
        (33280, 143771, 35),
        (71424, 143771, 71),
        (143360, 143771, 141),
        (10240, 0, 10),  # a board that does not say its size
    ],
)
def test_the_gb_of_a_profile(memory_mib: int, board_mib: int, gb: int) -> None:
    assert profile_gb(memory_mib, board_mib * MIB) == gb
