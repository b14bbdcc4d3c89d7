"""The slot normaliser."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.slot import normalise_slot


@pytest.mark.parametrize(
    ("address", "slot"),
    [
        ("00000000:91:00.0", "0000:91:00"),  # NVML
        ("PCI:0000:91:00", "0000:91:00"),  # kernel log
        ("0000:06:00.0", "0000:06:00"),  # NVSwitch
        ("0008:01:00", "0008:01:00"),  # Grace
        ("00000008:0A:1F.7", "0008:0a:1f"),
        ("0000:C1:00.0", "0000:c1:00"),
        ("1a:00.0", "0000:1a:00"),
        ("00010000:01:00.0", "10000:01:00"),
        (" 0000:91:00.0\n", "0000:91:00"),
    ],
)
def test_every_spelling_gives_one_slot(address: str, slot: str) -> None:
    assert normalise_slot(address) == slot


@pytest.mark.parametrize("address", ["", "91", "0000:91:00:00", "0000:91:20.0", "0000:91:00.8", "GPU-1", "g:1:1"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="not a PCI address"):
        normalise_slot(address)


@given(st.integers(0, 0xFFFF), st.integers(0, 0xFF), st.integers(0, 0x1F), st.integers(0, 7))
def test_spellings_agree_and_the_slot_is_a_fixed_point(domain: int, bus: int, device: int, part: int) -> None:
    slot = normalise_slot(f"{domain:08X}:{bus:02X}:{device:02X}.{part}")
    assert slot == normalise_slot(f"PCI:{domain:04x}:{bus:02x}:{device:02x}")
    assert slot == normalise_slot(slot)
    assert len(slot) == 10
