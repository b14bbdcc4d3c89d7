"""Each sample page gives exactly the right values in our units, or the stated refusal."""

from __future__ import annotations

import math

import pytest

from tests.signals.pages import SAMPLES, assert_counted, reasons, sample_page, values
from warehouse.signals.translate import Candidate, translate

BLANK_UUID = "GPU-95e7fa2a-1867-998f-a35a-30cac9d2276f"


@pytest.mark.pain(10)
def test_a_blank_temperature_is_no_temperature() -> None:
    said = translate(sample_page("dcgm_blank_memory_temp.prom"))
    assert values(said, "gpu_clock_hertz") == {(BLANK_UUID, "", "sm"): 139e6, (BLANK_UUID, "", "memory"): 405e6}
    assert len(said.samples) == 2
    assert reasons(said) == {("DCGM_FI_DEV_MEMORY_TEMP", "blank"): 1}
    assert said.refusals[0].why == "9.223372036854776e+18 stands for a missing value (dcgm_structs.h)"


@pytest.mark.pain(36, 40)
def test_instances_have_families_of_their_own_whatever_their_pods() -> None:
    said = translate(sample_page("dcgm_h100_mig_k8s_labels_partly_missing.prom"))
    board = ("GPU-832477ec-51ab-4d97-0da2-c94781262263", "0000:1a:00")
    assert values(said, "mig_engine_active_ratio") == {(*board, gi): 0.0 for gi in ("7", "8", "9")}
    assert values(said, "gpu_engine_active_ratio") == {}
    assert set(values(said, "gpu_workload_info")) == {
        (*board, "k8s", "", "", pod, "ns-1", "main") for pod in ("pod-1", "pod-2")
    }
    assert {sample.node for sample in said.samples} == {"node-a"}
    assert said.refusals == () and said.repeated == 0


@pytest.mark.pain(17, 40)
def test_the_facts_of_a_board_stand_once_and_the_latest_row_counts() -> None:
    said = translate(sample_page("dcgm_mig_a30_device_counters_repeated.prom"))
    first, second = "GPU-14639b06-e20e-2e3d-e089-9cef34e058cf", "GPU-2424c6de-1b69-1d6a-6515-4fdf61238f2d"
    # 126272106318 mJ is the row that was read later; summed over instances it would be 505 MJ.
    assert values(said, "gpu_energy_joules_total") == {(first, ""): 126272106.318, (second, ""): 134473486.744}
    memory = {(first, "", gi, "used"): 3.0 * 2**20 for gi in "3456"} | {
        (second, "", gi, "used"): 3.0 * 2**20 for gi in "34"
    }
    assert values(said, "mig_memory_bytes") == memory
    assert len(said.samples) == 8
    assert reasons(said) == {("DCGM_FI_DEV_NVLINK_BANDWIDTH_L0", "not_monotone"): 6}
    assert [(event.uuid, event.code, event.value) for event in said.events] == [(first, "0", 0.0), (second, "0", 0.0)]
    assert (said.used, said.repeated) == (8, 3 + 4)


@pytest.mark.pain(38)
def test_time_slicing_gives_the_device_once_and_three_workloads() -> None:
    said = translate(sample_page("dcgm_timeslicing_same_value_three_pods.prom"), node="n1")
    assert values(said, "gpu_engine_active_ratio") == {("index:0", ""): 0.714}
    pods = {labels[5] for labels in values(said, "gpu_workload_info")}
    assert pods == {"gpu-workload-1", "gpu-workload-2", "gpu-workload-3"}
    assert (said.used, said.repeated, said.without_uuid) == (1, 2, 3)
    assert {sample.node for sample in said.samples} == {"n1"}


def test_bare_metal_without_workloads_and_addresses() -> None:
    said = translate(sample_page("dcgm_v100x4_bare_metal.prom"))
    uuids = ["d71f50dc-198d-5fc6-573c-68c4024cc5b2", "e2747f01-e1c3-63b1-9794-4a3ead305f7c"]
    uuids += ["90b59875-1a26-3912-c92b-e82ea3a084f2", "f6f61f06-47f1-3e9a-940d-eb2d5d15ee11"]
    assert values(said, "gpu_pcie_replays_total") == {(f"GPU-{uuid}", ""): 0.0 for uuid in uuids}
    assert values(said, "gpu_utilization_ratio") == {(f"GPU-{uuids[0]}", ""): 0.0}
    assert len(said.samples) == 5
    # The limit that was asked for: neither the enforced nor the default one.
    assert reasons(said) == {("DCGM_FI_DEV_POWER_MGMT_LIMIT", "other_meaning"): 2}


def test_windows_are_evidence_and_no_counters() -> None:
    said = translate(sample_page("dcgm_xid_and_clock_event_windows.prom"))
    gpu = ("node-a", "GPU-5fd2eb2b-5fd7-587c-6826-234fb8ab456a", "")
    clock = "DCGM_EXP_CLOCK_EVENTS_COUNT"
    assert said.samples == () and said.refusals == ()
    assert said.events == (
        Candidate("xid", "42", *gpu, 1.0, 300_000, "DCGM_EXP_XID_ERRORS_COUNT"),
        Candidate("clock_event", "gpu_idle", *gpu, 2.0, 300_000, clock),
        Candidate("clock_event", "sw_thermal", *gpu, 1.0, 300_000, clock),
        Candidate("clock_event", "hw_thermal", *gpu, 1.0, 300_000, clock),
    )


H200 = ("GPU-00000000-0000-0000-0000-000000000000", "0000:83:00")
H200_READINGS = {
    "gpu_utilization_ratio": {(): 1.0},
    "gpu_memory_copy_utilization_ratio": {(): 0.07},
    "gpu_power_watts": {(): 627.4},
    "gpu_power_instant_watts": {(): 626.26},
    "gpu_power_limit_watts": {("enforced",): 700.0, ("default",): 700.0},
    "gpu_temperature_celsius": {("gpu",): 52.0, ("memory",): 40.0},
    "gpu_temperature_margin_celsius": {(): 35.0},
    "gpu_clock_hertz": {("sm",): 1.98e9, ("memory",): 3.201e9},
    "gpu_clock_max_hertz": {("sm",): 1.98e9, ("memory",): 3.201e9},
    "gpu_memory_bytes": {
        ("used",): 33934016512.0,
        ("free",): 116178026496.0,
        ("reserved",): 643825664.0,
        ("total",): 150754820096.0,
    },
    "gpu_pcie_link": {("gen",): 5.0, ("gen_max",): 5.0, ("width",): 16.0, ("width_max",): 16.0},
    "gpu_fabric_state": {(): 3.0},
    "gpu_processes": {(): 3.0},
    "gpu_ecc_mode": {("current",): 1.0, ("pending",): 1.0},
    "gpu_ecc_errors_total": {
        (kind, scope, place): 0.0
        for kind in ("corrected", "uncorrected")
        for scope in ("volatile", "aggregate")
        for place in ("all", "sram", "dram")
    },
    "gpu_sram_ecc_threshold_exceeded": {(): 0.0},
    "gpu_remapped_rows": {("correctable",): 0.0, ("uncorrectable",): 0.0},
    "gpu_row_remap_pending": {(): 0.0},
    "gpu_row_remap_failed": {(): 0.0},
    "gpu_row_remap_banks": {("max",): 3072.0, ("high",): 0.0, ("partial",): 0.0, ("low",): 0.0, ("none",): 0.0},
    "gpu_recovery_action": {(): 0.0},
    "gpu_info": {("NVIDIA H200", "0000000000000", "96.00.A5.00.03", "590.48.01", "13.1", "", "", "0"): 1.0},
    "gpu_clock_event_active": {
        (reason,): 0.0
        for reason in (
            *("idle", "application_clocks", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal", "hw_thermal"),
            *("power_brake", "display"),
        )
    },
    "gpu_clock_event_seconds_total": {
        (reason,): 0.0 for reason in ("sw_power_cap", "sync_boost", "sw_thermal", "hw_thermal", "power_brake")
    },
}


def test_h200_by_nvidia_smi() -> None:
    said = translate(sample_page("nge_h200_590.48.01_load.prom"))
    wanted = {
        ("gpuminutes_" + family, (*H200, *labels)): value
        for family, rows in H200_READINGS.items()
        for labels, value in rows.items()
    }
    assert {(s.family.name, s.labels): s.value for s in said.samples} == wanted
    assert reasons(said) == {
        ("nvidia_smi_name", "text_as_number"): 1,
        ("nvidia_smi_serial", "text_as_number"): 1,
        ("nvidia_smi_power_limit_watts", "other_meaning"): 1,
    }


def test_h100_in_mig_mode_has_no_utilisation() -> None:
    said = translate(sample_page("nge_h100-mig_590.48.01_load.prom"))
    gpu = (H200[0], "0000:00:09")
    assert values(said, "gpu_utilization_ratio") == {}
    assert values(said, "gpu_remapped_rows") == {}
    assert values(said, "gpu_row_remap_banks")[*gpu, "max"] == 2560.0
    assert values(said, "gpu_power_watts") == {gpu: 433.78}
    assert values(said, "gpu_memory_bytes")[*gpu, "total"] == 85520809984.0
    # "NVIDIA H100 80GB HBM3" holds three numbers, and was not taken for one.
    assert set(reasons(said)) == {
        ("nvidia_smi_serial", "text_as_number"),
        ("nvidia_smi_power_limit_watts", "other_meaning"),
    }


def test_a_geforce_lacks_what_it_lacks() -> None:
    said = translate(sample_page("nge_geforce-rtx-4080-super_595.71.05_load.prom"))
    gpu = (H200[0], "0000:01:00")
    info = ("NVIDIA GeForce RTX 4080 SUPER", "", "95.03.44.00.B2", "595.71.05", "13.2", "", "", "0")
    assert values(said, "gpu_info") == {(*gpu, *info): 1.0}
    assert values(said, "gpu_utilization_ratio") == {gpu: 0.07}
    assert values(said, "gpu_pcie_link")[*gpu, "gen_max"] == 4.0
    for family in ("gpu_ecc_errors_total", "gpu_ecc_mode", "gpu_remapped_rows", "gpu_row_remap_banks"):
        assert values(said, family) == {}
    assert ("nvidia_smi_name", "text_as_number") in reasons(said)


@pytest.mark.pain(40, 43)
def test_the_demo_of_two_gpus_one_with_instances() -> None:
    said = translate(sample_page("nge_demo_seeded.prom"))
    mig = ("GPU-1c67088e-9ecb-4564-bb97-6151ecc2ef64", "0000:01:00")
    whole = ("GPU-ef427e4f-1970-42f2-ab0c-ecf0e56a33b9", "0000:02:00")
    assert values(said, "gpu_energy_joules_total") == {mig: 0.0, whole: 0.0}
    assert values(said, "gpu_xid_events_total") == {(*whole, "79", "nvml"): 2.0}
    assert set(values(said, "mig_info")) == {
        (*mig, "2", "0", "MIG-292b7eb0-0beb-5abe-04b8-475f1ff17b99", "1c.3g.71gb"),
        (*mig, "2", "1", "MIG-6a6c5d1f-3ffa-f46e-0761-8edb556c091d", "1c.3g.71gb"),
        (*mig, "7", "0", "MIG-7b2137fb-43a7-dedc-f0da-909404e7eccd", "1g.18gb"),
    }
    memory = values(said, "mig_memory_bytes")
    assert len(memory) == 8
    assert memory[*mig, "2", "used"] == 42883309544.0
    assert memory[*mig, "7", "total"] == 19327352832.0
    assert reasons(said) == {
        ("nvidia_smi_name", "text_as_number"): 2,
        ("nvidia_smi_serial", "text_as_number"): 2,
        ("nvidia_smi_power_limit_watts", "other_meaning"): 2,
        ("nvidia_smi_pcie_throughput_tx_bytes_per_second", "other_meaning"): 2,
        ("nvidia_smi_pcie_throughput_rx_bytes_per_second", "other_meaning"): 2,
    }


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_is_counted_once_and_every_key_stands_once(name: str) -> None:
    said = translate(sample_page(name))
    assert_counted(said)
    keys = [sample[:3] for sample in said.samples]
    assert len(keys) == len(set(keys))
    for sample in said.samples:
        assert len(sample.labels) == len(sample.family.labels)
        assert math.isfinite(sample.value)
        assert sample.family.kind != "flag" or sample.value in (0.0, 1.0)
        assert sample.family.kind != "info" or sample.value == 1.0
