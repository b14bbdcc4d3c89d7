"""What becomes of each number that the driver gives: the real driver process over the scripted driver."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator

import pytest

from tests.exporter.cycles import Cycles
from tests.exporter.fake_nvml import models, script
from tests.exporter.fake_nvml.script import (
    ALL_LINKS,
    DOUBLE,
    NOT_SUPPORTED,
    UNSIGNED,
    UNSIGNED_LONG_LONG,
    FakeDriver,
    Gpu,
)
from tests.exporter.pending import NOT_ON_H100, TWO_CYCLES

INVALID_ARGUMENT = 2
NO_DATA = 21


@pytest.fixture
def cycles(env: dict[str, str]) -> Iterator[Cycles]:
    with Cycles(env) as running:
        yield running


@pytest.fixture
def gpu(driver: FakeDriver) -> Gpu:
    return driver.gpu(0)


# --- PCIe traffic ----------------------------------------------------------------------------------------
def _move(gpu: Gpu, tx: int, rx: int) -> None:
    """Lets that many bytes pass."""
    for number, count in zip(models.PCIE_BYTES, (tx, rx), strict=True):
        gpu.set_field(number, gpu.field_value(number) + count)


def test_pcie_rates_are_differences_over_the_time_between_two_cycles(cycles: Cycles, gpu: Gpu) -> None:
    began_s = time.monotonic()
    first = cycles.gpu()
    asked_s = time.monotonic()
    assert first.reasons["gpu_pcie_bytes_per_second"] == "no_data"
    time.sleep(0.3)
    _move(gpu, 6_000_000_000, 3_000_000_000)
    again_s = time.monotonic()
    rates = cycles.gpu().family("gpu_pcie_bytes_per_second")
    ended_s = time.monotonic()
    assert 6e9 / (ended_s - began_s) <= rates["tx"] <= 6e9 / (again_s - asked_s)
    assert rates["rx"] == rates["tx"] / 2
    assert cycles.gpu().family("gpu_pcie_bytes_per_second") == {"tx": 0.0, "rx": 0.0}


def test_a_pcie_counter_that_fell_gives_nothing_for_one_cycle(cycles: Cycles, gpu: Gpu) -> None:
    cycles.gpu()
    gpu.set_field(models.PCIE_BYTES[0], 5)
    assert cycles.gpu().reasons["gpu_pcie_bytes_per_second"] == "no_data"
    assert cycles.gpu().family("gpu_pcie_bytes_per_second") == {"tx": 0.0, "rx": 0.0}


def test_a_pcie_counter_that_may_have_gone_round_is_not_believed(cycles: Cycles, gpu: Gpu) -> None:
    """The field "can be wrapped" (nvml.h); at 32 bits a busy link does so many times in a cycle."""
    for number in models.PCIE_BYTES:
        gpu.set_field(number, 2**32 - 1)
    cycles.gpu()
    assert cycles.gpu().reasons["gpu_pcie_bytes_per_second"] == "no_data"
    _move(gpu, 4096, 8192)  # past 32 bits: a wider counter after all
    assert cycles.gpu().family("gpu_pcie_bytes_per_second").keys() == {"tx", "rx"}


def test_a_gpu_without_pcie_counters_says_so(cycles: Cycles, gpu: Gpu) -> None:
    gpu.refuse_field(models.PCIE_BYTES[1], NOT_SUPPORTED)
    assert cycles.gpu().reasons["gpu_pcie_bytes_per_second"] == "not_supported"


def test_pcie_errors_go_by_type(cycles: Cycles, gpu: Gpu) -> None:
    for at, number in enumerate(models.PCIE_ERRORS):
        gpu.set_field(number, at)
    errors = cycles.gpu().family("gpu_pcie_errors_total")
    order = ["correctable", "nak_received", "receiver", "bad_tlp", "nak_sent", "bad_dllp", "non_fatal", "fatal"]
    assert errors == {name: at for at, name in enumerate([*order, "unsupported_request", "lcrc", "lane"])}


def test_replays_come_by_field_where_the_call_is_refused(cycles: Cycles, gpu: Gpu) -> None:
    gpu.replays = 4
    gpu.set_field(models.PCIE_REPLAYS, 9)
    assert cycles.gpu().values["gpu_pcie_replays_total"] == 4
    gpu.returns_for("replays", NO_DATA)
    assert cycles.gpu().reasons["gpu_pcie_replays_total"] == "no_data"  # for now: no jump to another counter
    gpu.returns_for("replays", NOT_SUPPORTED)
    assert cycles.gpu().values["gpu_pcie_replays_total"] == 9


# --- NVLink ----------------------------------------------------------------------------------------------
def test_nvlink_bytes_are_the_sum_over_all_links(cycles: Cycles, gpu: Gpu) -> None:
    for number, kib in zip(models.NVLINK_KIB, (7, 5), strict=True):
        gpu.set_field(number, kib, scope=ALL_LINKS)
        gpu.set_field(number, 1, scope=0)
    assert cycles.gpu().family("gpu_nvlink_bytes_total") == {"tx": 7168, "rx": 5120}


@pytest.mark.pain(19)
def test_inactive_links_are_told_and_have_no_traffic_of_0(cycles: Cycles, gpu: Gpu) -> None:
    gpu.link_active[:] = [0] * script.MAX_LINKS
    for number in models.NVLINK_KIB:
        gpu.set_field(number, 0, scope=ALL_LINKS)
    answer = cycles.gpu()
    assert answer.family("gpu_nvlinks") == {"active": 0, "inactive": 18}
    for name in ("gpu_nvlink_bytes_total", "gpu_nvlink_errors_total"):
        assert not answer.family(name)
        assert answer.reasons[name] == "no_data"
    gpu.link_active[3] = 1
    answer = cycles.gpu()
    assert answer.family("gpu_nvlinks") == {"active": 1, "inactive": 17}
    assert answer.family("gpu_nvlink_bytes_total") == {"tx": 0, "rx": 0}  # an active link that carried nothing


def test_a_gpu_without_nvlink_says_so_after_one_question(cycles: Cycles, gpu: Gpu) -> None:
    gpu.links = 0
    for _ in range(3):
        answer = cycles.gpu()
    names = ("gpu_nvlinks", "gpu_nvlink_bytes_total", "gpu_nvlink_errors_total")
    assert {name: answer.reasons[name] for name in names} == dict.fromkeys(names, "not_supported")
    assert gpu.calls_of("nvlink_state") == 1


def test_nvlink_errors_are_summed_over_links(cycles: Cycles, gpu: Gpu) -> None:
    for link in range(18):
        gpu.set_field(161, link, scope=link)
        gpu.set_field(163, 2, scope=link)
    assert cycles.gpu().family("gpu_nvlink_errors_total") == {"replay": 153, "recovery": 0, "crc": 36}


def test_one_link_that_is_blank_or_refused_costs_the_sum_and_never_lowers_it(cycles: Cycles, gpu: Gpu) -> None:
    for link in range(18):
        gpu.set_field(161, 10, scope=link)
    gpu.set_field(161, 9223372036854775794, scope=4)
    gpu.refuse_field(162, NO_DATA, scope=5)
    answer = cycles.gpu()
    assert answer.family("gpu_nvlink_errors_total") == {"crc": 0}
    assert answer.reasons["gpu_nvlink_errors_total/replay"] == "blank"
    assert answer.reasons["gpu_nvlink_errors_total/recovery"] == "no_data"


def test_a_link_that_went_down_keeps_what_it_had_carried(cycles: Cycles, gpu: Gpu) -> None:
    """Or the sum would fall, which reads as a new beginning and makes all former traffic look like new."""
    models.make_b200(gpu)
    before = cycles.gpu().family("gpu_nvlink_bytes_total")
    assert before["tx"] == sum(10**11 + link for link in range(18))
    gpu.link_active[7] = 0
    gpu.set_field(202, 10**11 + 500, scope=0)
    answer = cycles.gpu()
    assert answer.family("gpu_nvlinks") == {"active": 17, "inactive": 1}
    assert answer.family("gpu_nvlink_bytes_total")["tx"] == before["tx"] + 500


def test_nvlink_5_has_its_own_errors(cycles: Cycles, gpu: Gpu) -> None:
    models.make_b200(gpu)
    for at, number in enumerate(models.NVLINK5_ERRORS):
        gpu.set_field(number, at, scope=2)
    kinds = ["recovery", "recovery_failed", "receive", "receive_remote", "receive_general", "link_integrity"]
    expected = {kind: at for at, kind in enumerate([*kinds, "transmit_discard"])}
    assert cycles.gpu().family("gpu_nvlink_errors_total") == expected


def test_boards_before_nvlink_4_give_totals(cycles: Cycles, gpu: Gpu) -> None:
    models.make_v100(gpu)
    assert cycles.gpu().family("gpu_nvlink_errors_total") == {"replay": 5, "recovery": 1, "crc": 5}


@pytest.mark.parametrize("state", [0, 1, 2])
def test_the_status_of_a_fabric_registration_counts_when_it_has_ended(cycles: Cycles, gpu: Gpu, state: int) -> None:
    gpu.fabric_state, gpu.fabric_status = state, 999
    answer = cycles.gpu()
    assert answer.values["gpu_fabric_state"] == state
    assert answer.reasons["gpu_fabric_status"] == "no_data"
    gpu.fabric_state = 3
    assert cycles.gpu().values["gpu_fabric_status"] == 999


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
