"""A page is read whole, as it stands, or refused whole with its line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.signals.pages import DATA, INVALID, SAMPLES, sample_page
from warehouse.errors import BadInput
from warehouse.signals.page import read_page

COUNTS = {
    "dcgm_blank_memory_temp.prom": 3,
    "dcgm_h100_mig_k8s_labels_partly_missing.prom": 3,
    "dcgm_mig_a30_device_counters_repeated.prom": 23,
    "dcgm_timeslicing_same_value_three_pods.prom": 3,
    "dcgm_v100x4_bare_metal.prom": 7,
    "dcgm_xid_and_clock_event_windows.prom": 4,
    "nge_demo_seeded.prom": 292,
    "nge_geforce-rtx-4080-super_595.71.05_load.prom": 104,
    "nge_h100-mig_590.48.01_load.prom": 128,
    "nge_h200_590.48.01_load.prom": 139,
}


def test_every_sample_page_is_read() -> None:
    assert {name: len(sample_page(name)) for name in SAMPLES} == COUNTS


def test_names_of_counters_stand_as_on_the_page() -> None:
    """The parser appends `_total` to a counter without it."""
    page = b"# TYPE DCGM_X counter\nDCGM_X 1\n# TYPE a_total counter\na_total 2\n"
    assert [raw.name for raw in read_page(page, "p")] == ["DCGM_X", "a_total"]


@pytest.mark.pain(13)
def test_a_text_as_a_value_is_refused_with_its_line() -> None:
    with pytest.raises(BadInput) as caught:
        read_page((DATA / INVALID).read_bytes(), "gpu7")
    (line,) = caught.value.lines
    assert line.startswith("gpu7 line 3: has a value that is no number; the page is refused whole: DCGM_FI_DEV_CUDA")
    assert "\n" not in line and len(line) < 200


BAD = [
    (b"ok 1\nx{a=b} 1\n", "line 2: is no sample"),
    (b"ok 1\n\xff\xfe 1\n", "line 2: is not UTF-8 at byte 1 of the line"),
    (b"\n\nx one\n", "line 3: has a value that is no number"),
    (b"# TYPE x\n", "line 1: is no comment that an exporter writes"),
    (b"<html>\n", "line 1: is no sample"),
    (b'x{a="b"} \n', "line 1: has a value that is no number"),
]


@pytest.mark.parametrize(("content", "reason"), BAD, ids=[reason for _, reason in BAD])
def test_a_bad_line_is_named(content: bytes, reason: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_page(content, "p")
    assert caught.value.lines[0].startswith(f"p {reason}")


def test_an_empty_page_is_a_page() -> None:
    assert read_page(b"", "p") == []


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60) | st.text('#{}="\\,ab_1.e \n\tTYPEHL', max_size=60).map(str.encode))
def test_whatever_comes_is_a_page_or_one_refusal(content: bytes) -> None:
    try:
        read_page(content, "p")
    except BadInput as exc:
        assert len(exc.lines) == 1
