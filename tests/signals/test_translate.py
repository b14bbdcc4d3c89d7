"""Single traps, and the laws of the reader: exact, and nothing dropped unseen."""

from __future__ import annotations

import ast
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter import metrics as m
from exporter.screen import BLANKS
from tests.signals.pages import DATA, ROWS, assert_counted, random_page, reasons, told, values
from warehouse.signals.page import Raw, read_page
from warehouse.signals.translate import Translation, translate

BLANK_BASES = (2147483632, 9223372036854775792, 140737488355328)
BLANK_TEXTS = [str(base + n) for base in BLANK_BASES for n in range(4)]


@pytest.mark.pain(10)
@pytest.mark.parametrize("blank", BLANK_TEXTS)
@pytest.mark.parametrize(
    "name", ["DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_XID_ERRORS"]
)
def test_all_twelve_blanks_are_refused(blank: str, name: str) -> None:
    said = told(f'{name}{{gpu="0",UUID="GPU-1"}} {blank}\n')
    assert said.samples == () and said.events == ()
    assert reasons(said) == {(name, "blank"): 1}


@pytest.mark.pain(10)
def test_blanks_of_a_python_exporter() -> None:
    """A dictionary of the same field values, blanks beside good ones."""
    text = (DATA / "dcgm_python_blank_values_h100.txt").read_text().splitlines()[-1]
    fields = {
        "power_usage": "DCGM_FI_DEV_POWER_USAGE",
        "fb_used": "DCGM_FI_DEV_FB_USED",
        "sm_active": "DCGM_FI_PROF_SM_ACTIVE",
        "sm_occupancy": "DCGM_FI_PROF_SM_OCCUPANCY",
        "tensor_active": "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "dram_active": "DCGM_FI_PROF_DRAM_ACTIVE",
        "pcie_tx_bytes": "DCGM_FI_PROF_PCIE_TX_BYTES",
        "pcie_rx_bytes": "DCGM_FI_PROF_PCIE_RX_BYTES",
    }
    numbers = {key: float(value) for key, value in ast.literal_eval(text).items() if key != "name"}
    assert {value for key, value in numbers.items() if key not in ("power_usage", "fb_used")} <= BLANKS
    page = [Raw(name, {"gpu": "0", "UUID": "GPU-1"}, numbers[key]) for key, name in fields.items()]
    said = translate(page)
    assert {(s.family.field, s.value) for s in said.samples} == {("gpu_power_watts", 69.437), ("gpu_memory_bytes", 0.0)}
    assert Counter(refusal.reason for refusal in said.refusals) == {"blank": 6}


def test_a_blank_of_dcgm_is_a_number_elsewhere() -> None:
    """2 GiB less 16 bytes is a size that an exporter in bytes may well see."""
    said = told('gpuminutes_gpu_memory_bytes{uuid="GPU-1",slot="s",state="used"} 2147483632\n')
    assert values(said, "gpu_memory_bytes") == {("GPU-1", "s", "used"): 2147483632.0}


@pytest.mark.pain(18)
@pytest.mark.parametrize("value", ["1000", "101", "4294967295", "-1", "NaN", "+Inf", "-Inf"])
def test_impossible_utilisation_is_refused(value: str) -> None:
    said = told(
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="GPU-1"}} {value}\nDCGM_FI_DEV_GPU_TEMP{{gpu="0",UUID="GPU-1"}} 40\n'
    )
    assert reasons(said) == {("DCGM_FI_DEV_GPU_UTIL", "out_of_range"): 1}
    assert values(said, "gpu_temperature_celsius") == {("GPU-1", "", "gpu"): 40.0}


def ratio_page(*numbers: float) -> Translation:
    """Gives a page of one GPU per number, of the field whose scale is not said."""
    return translate(
        [Raw("DCGM_FI_DEV_GPU_UTIL_RATIO", {"gpu": str(n), "UUID": f"GPU-{n}"}, x) for n, x in enumerate(numbers)]
    )


@pytest.mark.pain(18)
def test_a_ratio_that_may_be_a_percentage_waits_until_its_target_tells() -> None:
    assert values(ratio_page(0.0, 94.0, 1.0), "gpu_utilization_ratio") == {
        ("GPU-0", ""): 0.0,
        ("GPU-1", ""): 0.94,
        ("GPU-2", ""): 0.01,
    }
    for undecided in ((0.0, 1.0), (0.5,), (0.0, 4294967295.0), (1.0, 2147483632.0)):
        said = ratio_page(*undecided)
        assert said.samples == ()
        assert {refusal.reason for refusal in said.refusals} <= {"undecided_scale", "blank"}
        assert any(refusal.reason == "undecided_scale" for refusal in said.refusals)


def test_the_mask_becomes_nine_rows_and_strange_bits() -> None:
    bits = 0x4 | 0x40 | 0x100 | 1 << 12
    said = told(f'DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{{gpu="0",UUID="GPU-1"}} {bits}\n')
    found = {labels[2]: value for labels, value in values(said, "gpu_clock_event_active").items()}
    on = {reason for reason, value in found.items() if value == 1.0}
    assert on == {"sw_power_cap", "hw_thermal", "display", "bit_12"}
    assert found.keys() - on == {"idle", "application_clocks", "hw_slowdown", "sync_boost", "sw_thermal", "power_brake"}
    assert said.used == 1
    for junk in ("-1", "0.5", "4294967296"):
        assert reasons(told(f'DCGM_FI_DEV_CLOCKS_EVENT_REASONS{{gpu="0",UUID="GPU-1"}} {junk}\n')) == {
            ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "out_of_range"): 1
        }


def test_the_sticky_gauge_is_a_candidate_for_each_code() -> None:
    """Under MIG one row may have been read after the event."""
    said = told(
        'DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-1",GPU_I_ID="1"} 0\n'
        'DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-1",GPU_I_ID="2"} 79\n'
        'DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-1",GPU_I_ID="3"} 0\n'
    )
    assert [(event.code, event.value, event.window_ms) for event in said.events] == [
        ("0", 0.0, None),
        ("79", 79.0, None),
    ]
    assert (said.samples, said.repeated) == ((), 1)
    assert_counted(said)


def test_a_window_without_its_label() -> None:
    """The zero row comes without `xid`; a row over zero without it says nothing."""
    head = 'DCGM_EXP_XID_ERRORS_COUNT{gpu="0",UUID="GPU-1"'
    assert [event.code for event in told(head + ',window_size_in_ms="300000"} 0\n').events] == [""]
    assert told(head + ',window_size_in_ms="300000"} 2\n').refusals[0].reason == "bad_label"
    assert told(head + ',xid="79"} 2\n').refusals[0].reason == "bad_label"


@pytest.mark.pain(43)
def test_both_spellings_of_the_host_are_the_node() -> None:
    for label in ("Hostname", "hostname"):
        said = told(f'DCGM_FI_DEV_GPU_TEMP{{gpu="0",UUID="GPU-1",{label}="node-a"}} 40\n')
        assert [(s.node, s.value) for s in said.samples] == [("node-a", 40.0)]
    (sample,) = told('DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1",Hostname="pod-7",node="n1"} 40\n').samples
    assert sample.node == "n1"


@pytest.mark.pain(36)
def test_a_workload_that_comes_and_goes_changes_no_board_series() -> None:
    base = 'gpu="0",UUID="GPU-1",pci_bus_id="00000000:1A:00.0"'
    boards = []
    for labels in (
        "",
        ',pod="",namespace="",container=""',
        ',pod="p",namespace="n",container="c"',
        ',hpc_job="4711"',
        ',exported_pod="p",pod="exporter"',
    ):
        said = told(f"DCGM_FI_DEV_GPU_TEMP{{{base}{labels}}} 40\n")
        boards.append([s for s in said.samples if s.family is not m.GPU_WORKLOAD_INFO])
        workloads = [labels[2:] for labels in values(said, "gpu_workload_info")]
        assert workloads == {
            ',pod="p",namespace="n",container="c"': [("k8s", "", "", "p", "n", "c")],
            ',hpc_job="4711"': [("slurm", "4711", "", "", "", "")],
            ',exported_pod="p",pod="exporter"': [("k8s", "", "", "p", "", "")],
        }.get(labels, [])
    assert all(board == boards[0] for board in boards)
    assert boards[0][0].labels == ("GPU-1", "0000:1a:00", "gpu")


def test_an_error_text_in_a_label_is_a_missing_label() -> None:
    said = told('DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1",pod="ERROR - FAILED TO CONVERT TO STRING"} 40\n')
    assert values(said, "gpu_workload_info") == {}


@pytest.mark.pain(40)
def test_a_utilisation_of_an_instance_is_not_the_board_s() -> None:
    page = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",GPU_I_ID="1",GPU_I_PROFILE="1g.10gb"} 0\n'
    assert reasons(told(page)) == {("DCGM_FI_DEV_GPU_UTIL", "other_level"): 1}
    page = 'DCGM_FI_DEV_NVLINK_REPLAY_ERROR_TOTAL{nvlink="3",gpu="0",gpu_uuid="GPU-1"} 7\n'
    assert reasons(told(page)) == {("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_TOTAL", "other_level"): 1}


def test_a_gpu_that_nobody_names_is_refused() -> None:
    assert reasons(told("DCGM_FI_DEV_GPU_TEMP 40\n")) == {("DCGM_FI_DEV_GPU_TEMP", "no_gpu"): 1}
    said = told('nvidia_smi_xid_errors_total{uuid="unknown",xid="79"} 1\n')
    assert reasons(said) == {("nvidia_smi_xid_errors_total", "no_gpu"): 1}


def test_an_address_that_cannot_be_read_is_told() -> None:
    said = told('DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1",pci_bus_id="somewhere"} 40\n')
    assert values(said, "gpu_temperature_celsius") == {("GPU-1", "", "gpu"): 40.0}
    assert said.without_slot == 1


def test_of_two_names_of_one_field_the_first_of_the_table_speaks() -> None:
    hertz = 'DCGM_FI_DEV_SM_CLOCK_HERTZ{gpu="0",UUID="GPU-1"} '
    megahertz = 'DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-1"} 1980\n'
    for page in (hertz + "1980500000\n" + megahertz, megahertz + hertz + "1980500000\n"):
        said = told(page)
        assert values(said, "gpu_clock_hertz") == {("GPU-1", "", "sm"): 1980500000.0}
        assert (said.used, said.repeated) == (1, 1)
    # A blank says nothing, so that the other one does.
    assert values(told(hertz + "9223372036854775792\n" + megahertz), "gpu_clock_hertz") == {("GPU-1", "", "sm"): 1.98e9}


def test_names_of_others_are_counted_and_not_listed() -> None:
    said = told('node_load1 0.5\nup{job="x"} 1\nup{job="y"} 1\nDCGM_FI_DEV_VGPU_LICENSE_STATUS{gpu="0"} 0\n')
    assert (said.unknown, said.unknown_names, said.refusals, said.dialects) == (4, 3, (), ("dcgm",))


def test_our_own_page_is_understood_word_for_word() -> None:
    page = read_page((DATA.parents[1] / "exporter" / "golden" / "healthy.prom").read_bytes(), "ours")
    said = translate(page)
    assert said.refusals == () and said.repeated == 0
    known = {(raw.name, tuple(sorted(raw.labels.items())), raw.value) for raw in page if raw.name in m.FAMILY_BY_NAME}
    assert len(known) == said.used > 100
    assert known == {
        (s.family.name, tuple(sorted(zip(s.family.labels, s.labels, strict=True))), s.value) for s in said.samples
    }


# --- laws ------------------------------------------------------------------------------------------------
NAMES = [*sorted(name for name in ROWS if name.startswith("DCGM_")), "other"]


@settings(max_examples=150, deadline=None)
@given(st.integers(min_value=0, max_value=2**32), st.integers(min_value=0, max_value=2**32))
def test_order_changes_no_value_and_nothing_is_lost(seed: int, order: int) -> None:
    page = random_page(random.Random(seed), NAMES)
    said = translate(page)
    assert_counted(said)
    shuffled = list(page)
    random.Random(order).shuffle(shuffled)
    again = translate(shuffled)
    assert again.samples == said.samples
    assert sorted(again.events) == sorted(said.events)
    assert sorted(again.refusals) == sorted(said.refusals)


@settings(max_examples=100, deadline=None)
@given(st.integers(min_value=0, max_value=2**32))
def test_no_value_leaves_the_span_of_its_family(seed: int) -> None:
    for sample in translate(random_page(random.Random(seed), NAMES)).samples:
        span = sample.family.valid
        assert span is None or span[0] <= sample.value <= span[1]


def test_random_pages_reach_every_kind_of_row() -> None:
    """The laws above are worth little if the pages do not reach what they speak of."""
    reached = {
        type(ROWS[raw.name]) for n in range(20) for raw in random_page(random.Random(n), NAMES) if raw.name in ROWS
    }
    assert len(reached) == 4
