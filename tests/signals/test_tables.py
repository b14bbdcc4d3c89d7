"""The tables hold together, and hold what the contract's table of aliases says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter import metrics as m
from exporter.nvml.sources import SOURCES
from tests.signals.pages import ROWS
from warehouse.signals import load_dialects, table_faults, words
from warehouse.signals.alias import Alias, Dialect, EventGauge, From, Mask, Refused, Workload

D = "DCGM_FI_DEV_"
P = "DCGM_FI_PROF_"

# Old name, name of DCGM 4.6, family of ours, what one unit of the old and of the new is in ours.
FIELDS = [
    (D + "MEM_COPY_UTIL", D + "MEM_COPY_UTIL", "gpu_memory_copy_utilization_ratio", 0.01, 0.01),
    (P + "SM_ACTIVE", P + "SM_UTIL_RATIO", "gpu_sm_active_ratio", 1, 1),
    (P + "SM_OCCUPANCY", P + "SM_OCCUPANCY_RATIO", "gpu_sm_occupancy_ratio", 1, 1),
    (P + "PIPE_TENSOR_ACTIVE", P + "TENSOR_UTIL_RATIO", "gpu_tensor_active_ratio", 1, 1),
    (P + "DRAM_ACTIVE", P + "DRAM_UTIL_RATIO", "gpu_dram_active_ratio", 1, 1),
    (P + "GR_ENGINE_ACTIVE", P + "GR_ENGINE_UTIL_RATIO", "gpu_engine_active_ratio", 1, 1),
    (P + "PCIE_TX_BYTES", P + "PCIE_TX_BYTES", "gpu_pcie_bytes_per_second", 1, 1),
    (P + "PCIE_RX_BYTES", P + "PCIE_RX_BYTES", "gpu_pcie_bytes_per_second", 1, 1),
    (D + "SM_CLOCK", D + "SM_CLOCK_HERTZ", "gpu_clock_hertz", 1e6, 1),
    (D + "MEM_CLOCK", D + "MEMORY_CLOCK_HERTZ", "gpu_clock_hertz", 1e6, 1),
    (D + "MAX_SM_CLOCK", D + "SM_MAX_CLOCK_HERTZ", "gpu_clock_max_hertz", 1e6, 1),
    (D + "MAX_MEM_CLOCK", D + "MEMORY_MAX_CLOCK_HERTZ", "gpu_clock_max_hertz", 1e6, 1),
    (D + "TOTAL_ENERGY_CONSUMPTION", D + "GPU_ENERGY_JOULES_TOTAL", "gpu_energy_joules_total", 0.001, 1),
    (D + "POWER_USAGE", D + "BOARD_POWER_WATTS", "gpu_power_watts", 1, 1),
    (D + "POWER_USAGE_INSTANT", D + "BOARD_POWER_RAW_WATTS", "gpu_power_instant_watts", 1, 1),
    (D + "ENFORCED_POWER_LIMIT", D + "BOARD_POWER_LIMIT_ENFORCED_WATTS", "gpu_power_limit_watts", 1, 1),
    (D + "POWER_MGMT_LIMIT_DEF", D + "BOARD_POWER_LIMIT_DEFAULT_WATTS", "gpu_power_limit_watts", 1, 1),
    (D + "GPU_TEMP", D + "GPU_TEMP_CELSIUS", "gpu_temperature_celsius", 1, 1),
    (D + "MEMORY_TEMP", D + "MEMORY_TEMP_CELSIUS", "gpu_temperature_celsius", 1, 1),
    (D + "GPU_TEMP_LIMIT", D + "GPU_TEMP_MARGIN_CELSIUS", "gpu_temperature_margin_celsius", 1, 1),
    *((D + f"FB_{w}", D + f"FB_{w}", "gpu_memory_bytes", 2**20, 2**20) for w in ("USED", "FREE", "RESERVED", "TOTAL")),
    *(
        (D + name, D + name, "gpu_clock_event_seconds_total", 1e-9, 1e-9)
        for name in (
            *(f"CLOCKS_EVENT_REASON_{w}_NS" for w in ("SW_POWER_CAP", "SYNC_BOOST", "SW_THERM_SLOWDOWN")),
            *(f"CLOCKS_EVENT_REASON_{w}_NS" for w in ("HW_THERM_SLOWDOWN", "HW_POWER_BRAKE_SLOWDOWN")),
            *("POWER_VIOLATION", "THERMAL_VIOLATION"),
        )
    ),
    *(
        (D + f"ECC_{bits}_{scope}_TOTAL", D + f"ECC_{bits}_{scope}_TOTAL", "gpu_ecc_errors_total", 1, 1)
        for bits in ("SBE", "DBE")
        for scope in ("VOL", "AGG")
    ),
    (D + "UNCORRECTABLE_REMAPPED_ROWS", D + "ROW_REMAP_UNCORRECTABLE_TOTAL", "gpu_remapped_rows", 1, 1),
    (D + "CORRECTABLE_REMAPPED_ROWS", D + "ROW_REMAP_CORRECTABLE_TOTAL", "gpu_remapped_rows", 1, 1),
    (D + "ROW_REMAP_FAILURE", D + "ROW_REMAP_FAILED", "gpu_row_remap_failed", 1, 1),
    (D + "ROW_REMAP_PENDING", D + "ROW_REMAP_PENDING", "gpu_row_remap_pending", 1, 1),
    (D + "RETIRED_SBE", D + "PAGE_RETIRED_SBE_TOTAL", "gpu_retired_pages", 1, 1),
    (D + "RETIRED_DBE", D + "PAGE_RETIRED_DBE_TOTAL", "gpu_retired_pages", 1, 1),
    (D + "RETIRED_PENDING", D + "PAGE_RETIRED_PENDING", "gpu_retired_pages_pending", 1, 1),
    (D + "PCIE_REPLAY_COUNTER", D + "PCIE_REPLAY_TOTAL", "gpu_pcie_replays_total", 1, 1),
    *(
        (D + f"NVLINK_{w}_ERROR_COUNT_TOTAL", D + f"NVLINK_{w}_ERROR_TOTAL", "gpu_nvlink_errors_total", 1, 1)
        for w in ("CRC_FLIT", "CRC_DATA", "REPLAY", "RECOVERY")
    ),
    (D + "GET_GPU_RECOVERY_ACTION", D + "GPU_RECOVERY_ACTION", "gpu_recovery_action", 1, 1),
]


@pytest.mark.parametrize(("old", "new", "family", "old_unit", "new_unit"), FIELDS, ids=lambda v: str(v))
def test_both_names_of_a_field_are_known(old: str, new: str, family: str, old_unit: float, new_unit: float) -> None:
    for name, unit in ((old, old_unit), (new, new_unit)):
        row = ROWS[name]
        assert isinstance(row, Alias)
        assert row.family.field == family
        assert row.times / row.per == unit
    assert getattr(ROWS[old], "labels", ()) == getattr(ROWS[new], "labels", ())


def test_the_fields_with_a_rule_of_their_own() -> None:
    percent, undecided = ROWS[D + "GPU_UTIL"], ROWS[D + "GPU_UTIL_RATIO"]
    assert isinstance(percent, Alias) and (percent.per, percent.percent_above) == (100, None)
    assert isinstance(undecided, Alias) and (undecided.per, undecided.percent_above) == (100, 1.0)
    for name in ("CLOCK_THROTTLE_REASONS", "CLOCKS_EVENT_REASONS"):
        mask = ROWS[D + name]
        assert isinstance(mask, Mask) and mask.family is m.GPU_CLOCK_EVENT_ACTIVE and len(mask.words) == 9
    for name in ("NVLINK_BANDWIDTH_TOTAL", "NVLINK_THROUGHPUT_TOTAL"):
        refused = ROWS[D + name]
        assert isinstance(refused, Refused) and refused.reason == "not_monotone"
    for name in (D + "XID_ERRORS", D + "XID_ERROR", "DCGM_EXP_XID_ERRORS_COUNT", "DCGM_EXP_CLOCK_EVENTS_COUNT"):
        assert isinstance(ROWS[name], EventGauge)


def test_every_family_of_ours_means_itself() -> None:
    assert {name: getattr(ROWS[name], "family", None) for name in m.FAMILY_BY_NAME} == m.FAMILY_BY_NAME


def test_label_values_are_those_of_our_exporter() -> None:
    """Where the exporter fills a family with constant labels, no table gives it other ones."""
    ours: dict[str, set[tuple[str, ...]]] = {}
    for source in SOURCES:
        for field in source.fields:
            ours.setdefault(field.family.name, set()).add(field.labels)
    strange = {
        (row.family.name, row.labels)
        for row in ROWS.values()
        if isinstance(row, Alias)
        and row.family.name in ours
        and all(isinstance(label, str) for label in row.labels)
        and row.labels not in ours[row.family.name]
    }
    # Ours adds the two kinds of CRC errors; a page may hold only one of them.
    assert strange <= {(m.GPU_NVLINK_ERRORS.name, (kind,)) for kind in ("crc_flit", "crc_data")}


def test_the_words_of_the_mask_are_those_of_our_exporter() -> None:
    fields = [field for source in SOURCES for field in source.fields if field.family is m.GPU_CLOCK_EVENT_ACTIVE]
    assert [field.labels for field in fields] == [(word,) for word in words.CLOCK_REASONS]
    assert len(fields) == 9


def test_our_dialect_is_read_first() -> None:
    assert [dialect.name for dialect in load_dialects()] == ["ours", "dcgm", "nvidia_smi"]


GOOD = Alias("x_power", m.GPU_POWER)
BROKEN = [
    (replace(GOOD, name="power"), "does not begin with x_"),
    (replace(GOOD, labels=("gpu",)), "has 1 labels, gpuminutes_gpu_power_watts has none of its own"),
    (replace(GOOD, family=replace(m.GPU_POWER)), "is no family of the contract"),
    (replace(GOOD, family=m.GPUS_VISIBLE), "is a fact of the node"),
    (replace(GOOD, times=2, per=3, unit="?"), "factor 2/3"),
    (replace(GOOD, times=0, unit="?"), "factor 0/1"),
    (replace(GOOD, per=1000), "needs its unit"),
    (replace(GOOD, percent_above=1.0), "is divided by 100"),
    (replace(GOOD, mig=m.MIG_MEMORY, per_instance=True), "does not have gi and the 0 labels"),
    (replace(GOOD, mig=m.MIG_SM_ACTIVE), "the row is not per instance"),
    (Mask("x_mask", m.GPU_POWER, ("a",)), "needs one label of its own"),
    (Refused("x_no", "other_meaning", " "), "needs its why"),
    (EventGauge("x_event", "xid", None, None, ""), "needs its why"),
]


@pytest.mark.parametrize(("row", "fault"), BROKEN, ids=[fault for _, fault in BROKEN])
def test_a_fault_is_named(row: Alias | Mask | Refused | EventGauge, fault: str) -> None:
    assert table_faults([Dialect("x", "x", "x_", (GOOD,))]) == []
    (found,) = table_faults([Dialect("x", "x", "x_", (row,))])
    assert found.startswith(f"x: {row.name}: ")
    assert fault in found


def test_all_faults_are_named_at_once() -> None:
    rows = (*(row for row, _ in BROKEN), GOOD, GOOD)
    workload = Workload("k8s", "pod", {"job": ("pod",)})
    faults = table_faults([Dialect("x", "x", "x_", rows, workloads=(workload,)), Dialect("y", "y", "", (GOOD,))])
    for _, fault in BROKEN:
        assert any(fault in found for found in faults), fault
    assert "y: x_power: is already a row of x" in faults
    assert "y: names need a prefix" in faults
    assert any(found.startswith("x: workload k8s") for found in faults)


def test_copied_labels_fit_their_family() -> None:
    row = ROWS["nvidia_smi_mig_info"]
    assert isinstance(row, Alias)
    assert row.labels[0] == From("gpu_instance_id", needed=True)
