"""What becomes of each number that the driver gives: the real driver process over the scripted driver."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

import pytest

from tests.exporter.cycles import Cycles
from tests.exporter.fake_nvml import models, script
from tests.exporter.fake_nvml.script import (
    DOUBLE,
    NOT_SUPPORTED,
    UNSIGNED,
    UNSIGNED_LONG_LONG,
    FakeDriver,
    Gpu,
)
from tests.exporter.families import NOT_ON_H100, TWO_CYCLES

INVALID_ARGUMENT = 2
NO_DATA = 21


# --- clocks ----------------------------------------------------------------------------------------------
_REASONS = ("idle", "application_clocks", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal", "hw_thermal")


def test_every_clock_event_is_told_active_or_not(cycles: Cycles, gpu: Gpu) -> None:
    gpu.clock_events = 0x4 | 0x40 | 0x400
    active = cycles.gpu().family("gpu_clock_event_active")
    assert active == {
        **dict.fromkeys((*_REASONS, "power_brake", "display"), 0),
        "sw_power_cap": 1,
        "hw_thermal": 1,
        "bit_10": 1,
    }
    gpu.clock_events = 0
    assert set(cycles.gpu().family("gpu_clock_event_active").values()) == {0}


@pytest.mark.pain(10)
def test_a_blank_mask_is_no_set_of_bits(cycles: Cycles, gpu: Gpu) -> None:
    gpu.clock_events = 9223372036854775792
    answer = cycles.gpu()
    assert not answer.family("gpu_clock_event_active")
    assert answer.reasons["gpu_clock_event_active"] == "blank"


@pytest.mark.parametrize(
    ("version", "asked"),
    [
        (b"535.161.08", {"sw_thermal": 75}),
        (b"570.172.08", {"sw_thermal": 75}),
        (b"575.51.03", {"sw_thermal": 251, "hw_thermal": 252, "power_brake": 253}),
        (b"580.65.06", {"sw_thermal": 251, "hw_thermal": 252, "power_brake": 253}),
        (b"580.76.05", {}),
        (b"580.82.07", {"sw_thermal": 269, "hw_thermal": 270, "power_brake": 271}),
        (b"590.48.01", {"sw_thermal": 269, "hw_thermal": 270, "power_brake": 271}),
        (b"", {}),
    ],
)
def test_ids_that_moved_between_drivers_are_asked_by_version(
    driver: FakeDriver, cycles: Cycles, gpu: Gpu, version: bytes, asked: dict[str, int]
) -> None:
    """Under the other set of ids a driver answers about power smoothing, in units that are not seconds."""
    driver.state.driver = version
    for number in (75, 251, 252, 253, 269, 270, 271):
        gpu.set_field(number, number * 10**9)
    answer = cycles.gpu()
    assert answer.family("gpu_clock_event_seconds_total") == {"sw_power_cap": 7, "sync_boost": 0, **asked}
    missing = {"sw_thermal", "hw_thermal", "power_brake"} - asked.keys()
    assert {f"gpu_clock_event_seconds_total/{name}" for name in missing} <= answer.reasons.keys()


# --- heat and power --------------------------------------------------------------------------------------
def test_the_margin_is_the_drivers_or_what_is_left_to_the_threshold(cycles: Cycles, gpu: Gpu) -> None:
    gpu.margin_c = -3
    assert cycles.gpu().values["gpu_temperature_margin_celsius"] == -3
    gpu.returns_for("margin", NOT_SUPPORTED)
    gpu.temperature_c, gpu.thresholds_c[3] = 60, 87
    assert cycles.gpu().values["gpu_temperature_margin_celsius"] == 27
    gpu.thresholds_c[3] = 2147483634
    assert cycles.gpu().reasons["gpu_temperature_margin_celsius"] == "blank"


def test_instant_power_and_memory_temperature(cycles: Cycles, gpu: Gpu) -> None:
    gpu.set_field(models.POWER_INSTANT, 654_321, kind=UNSIGNED)
    gpu.set_field(models.MEMORY_TEMPERATURE, 71, kind=UNSIGNED)
    values = cycles.gpu().values
    assert (values["gpu_power_instant_watts"], values["gpu_temperature_celsius/memory"]) == (654.321, 71)


# --- memory ----------------------------------------------------------------------------------------------
@pytest.mark.pain(20)
def test_with_ecc_off_there_are_no_counters_whatever_the_driver_answers(cycles: Cycles, gpu: Gpu) -> None:
    gpu.ecc_mode[:] = [0, 1]
    answer = cycles.gpu()
    assert answer.family("gpu_ecc_mode") == {"current": 0, "pending": 1}
    for name in ("gpu_ecc_errors_total", "gpu_sram_ecc_threshold_exceeded"):
        assert not answer.family(name)
        assert answer.reasons[name] == "not_supported"


@pytest.mark.pain(45)
def test_a_failed_and_a_pending_remap_are_served(cycles: Cycles, gpu: Gpu) -> None:
    gpu.remapped[:] = [3, 1, 1, 1]
    gpu.banks[:] = [600, 20, 10, 9, 1]
    gpu.sram_exceeded = 1
    answer = cycles.gpu()
    assert answer.family("gpu_remapped_rows") == {"correctable": 3, "uncorrectable": 1}
    assert answer.values["gpu_row_remap_pending"] == answer.values["gpu_row_remap_failed"] == 1
    assert answer.family("gpu_row_remap_banks") == {"max": 600, "high": 20, "partial": 10, "low": 9, "none": 1}
    assert answer.values["gpu_sram_ecc_threshold_exceeded"] == 1


def test_boards_that_retire_pages_count_them(cycles: Cycles, gpu: Gpu) -> None:
    models.make_v100(gpu)
    gpu.retired_pending = 1
    answer = cycles.gpu()
    assert answer.family("gpu_retired_pages") == {"single_bit": 2, "double_bit": 1}
    assert answer.values["gpu_retired_pages_pending"] == 1
    gpu.retired[:] = [0, 0]
    assert cycles.gpu().family("gpu_retired_pages") == {"single_bit": 0, "double_bit": 0}


@pytest.mark.pain(40)
def test_board_utilization_is_absent_under_mig_and_never_0(driver: FakeDriver, cycles: Cycles, gpu: Gpu) -> None:
    gpu.mig_mode = driver.gpu(1).mig_mode = 1
    driver.gpu(1).mig_utilization, driver.gpu(1).utilization_percent = 1, 0  # a driver that answers all the same
    for reading in cycles.snapshot().gpus:
        families = {value.family for value in reading.values}
        assert not families & {"gpuminutes_gpu_utilization_ratio", "gpuminutes_gpu_memory_copy_utilization_ratio"}
        reasons = dict(reading.unavailable)
        assert reasons["gpu_utilization_ratio"] == reasons["gpu_memory_copy_utilization_ratio"] == "not_supported"


# --- what is refused, and how often it is asked ----------------------------------------------------------
@pytest.mark.pain(32)
def test_what_is_refused_for_good_is_not_asked_again(cycles: Cycles, gpu: Gpu) -> None:
    gpu.returns_for("power", NOT_SUPPORTED)
    gpu.returns_for("energy", NO_DATA)
    gpu.refuse_field(models.POWER_INSTANT, NOT_SUPPORTED)
    gpu.refuse_field(models.MEMORY_TEMPERATURE, NO_DATA)
    cycles.gpu()
    asked = gpu.fields_asked
    for _ in range(3):
        answer = cycles.gpu()
    assert gpu.calls_of("power") == 1
    assert gpu.calls_of("energy") == 4
    assert answer.reasons["gpu_power_instant_watts"] == answer.reasons["gpu_power_watts"] == "not_supported"
    assert answer.reasons["gpu_temperature_celsius/memory"] == "no_data"
    # Each later cycle leaves out one value, and only that; those refused for good are told all the same.
    assert gpu.fields_asked - asked == 3 * (asked - 1)
    gpu.set_field(models.MEMORY_TEMPERATURE, 66, kind=UNSIGNED)
    assert cycles.gpu().values["gpu_temperature_celsius/memory"] == 66


def test_what_was_refused_is_asked_again_with_the_static_cycle(env: dict[str, str], gpu: Gpu) -> None:
    gpu.refuse_field(models.RECOVERY_ACTION, NOT_SUPPORTED)
    with Cycles(env, "--static-interval=0") as cycles:
        assert cycles.gpu().reasons["gpu_recovery_action"] == "not_supported"
        gpu.set_field(models.RECOVERY_ACTION, 4, kind=UNSIGNED)
        assert cycles.gpu().values["gpu_recovery_action"] == 4


def test_a_field_id_that_a_driver_does_not_know_is_not_supported(cycles: Cycles, gpu: Gpu) -> None:
    gpu.refuse_field(models.RECOVERY_ACTION, INVALID_ARGUMENT)
    assert cycles.gpu().reasons["gpu_recovery_action"] == "not_supported"


@pytest.mark.parametrize(("code", "down"), [(script.GPU_IS_LOST, "lost"), (script.RESET_REQUIRED, "reset_required")])
def test_a_batch_that_says_success_may_hold_a_lost_gpu(cycles: Cycles, gpu: Gpu, code: int, down: str) -> None:
    gpu.refuse_field(models.POWER_INSTANT, code)
    assert cycles.gpu().reading.down == down


def test_a_gpu_that_is_another_one_now_takes_over_nothing(driver: FakeDriver, cycles: Cycles) -> None:
    cycles.gpu()
    driver.swap(0, 1)
    answer = cycles.gpu()
    assert answer.reading.identity.uuid == driver.uuid(0)
    assert answer.reasons["gpu_pcie_bytes_per_second"] == "no_data"


def test_the_number_of_the_device_file_is_known_where_the_driver_says_it(cycles: Cycles, driver: FakeDriver) -> None:
    driver.gpu(0).minor = 5
    driver.gpu(1).returns_for("minor", NOT_SUPPORTED)
    assert [gpu.identity.minor for gpu in cycles.snapshot().gpus] == [5, None]


# --- numbers that are none -------------------------------------------------------------------------------
_BLANKS: list[tuple[int, int]] = []
for _n in range(4):
    _BLANKS.append((UNSIGNED, 2147483632 + _n))
    _BLANKS.append((UNSIGNED_LONG_LONG, 9223372036854775792 + _n))
    _BLANKS.append((DOUBLE, struct.unpack("<Q", struct.pack("<d", 140737488355328.0 + _n))[0]))


@pytest.mark.pain(10, 11)
@pytest.mark.parametrize(("kind", "bits"), _BLANKS)
def test_a_blank_is_dropped_and_counted_and_the_field_comes_back(
    cycles: Cycles, gpu: Gpu, kind: int, bits: int
) -> None:
    gpu.set_field(models.POWER_INSTANT, bits, kind=kind)
    for _ in range(2):
        snapshot = cycles.snapshot()
        assert snapshot.dropped == ("blank",)
        assert dict(snapshot.gpus[0].unavailable)["gpu_power_instant_watts"] == "blank"
    gpu.set_field(models.POWER_INSTANT, 500_000)
    assert cycles.gpu().values["gpu_power_instant_watts"] == 500


@pytest.mark.pain(18)
@pytest.mark.parametrize("percent", [101, 1000, 65535, 4294967295])
def test_utilization_beyond_100_percent_is_dropped_and_counted(cycles: Cycles, gpu: Gpu, percent: int) -> None:
    gpu.utilization_percent = gpu.memory_copy_percent = percent
    snapshot = cycles.snapshot()
    assert snapshot.dropped == ("out_of_range", "out_of_range")
    reasons = dict(snapshot.gpus[0].unavailable)
    assert reasons["gpu_utilization_ratio"] == reasons["gpu_memory_copy_utilization_ratio"] == "out_of_range"


def test_the_healthy_gpu_says_everything_but_what_its_model_lacks(cycles: Cycles) -> None:
    assert cycles.gpu().reasons.keys() == NOT_ON_H100 | TWO_CYCLES
    time.sleep(1.0)  # hardware counters want as much between two samples
    assert cycles.gpu().reasons.keys() == NOT_ON_H100


def _out_of_type(gpu: Gpu) -> None:
    gpu.set_field(models.POWER_INSTANT, 1, kind=99)


def _not_a_number(gpu: Gpu) -> None:
    gpu.set_field(models.POWER_INSTANT, struct.unpack("<Q", struct.pack("<d", float("nan")))[0], kind=DOUBLE)


@pytest.mark.pain(20)
@pytest.mark.parametrize(("spoil", "why"), [(_out_of_type, "unknown"), (_not_a_number, "out_of_range")])
def test_what_is_no_number_is_no_sample(cycles: Cycles, gpu: Gpu, spoil: Callable[[Gpu], None], why: str) -> None:
    spoil(gpu)
    assert cycles.gpu().reasons["gpu_power_instant_watts"] == why
