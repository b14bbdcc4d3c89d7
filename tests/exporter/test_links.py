"""What becomes of the numbers of PCIe, NVLink and its fabric: the real driver process over the scripted driver."""

from __future__ import annotations

import time

import pytest

from tests.exporter.cycles import Cycles
from tests.exporter.fake_nvml import models, script
from tests.exporter.fake_nvml.script import ALL_LINKS, NOT_SUPPORTED, Gpu

NO_DATA = 21


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
    gpu.activity.gpm_supported = 0
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
