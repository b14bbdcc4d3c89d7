"""Uncorrectable SRAM error."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Uncorrectable SRAM error",
    rank=31,
    state=State.DOWN,
    owner="hardware",
    signature="Xid 48 together with 172, or the driver's SRAM error threshold flag is set.",
    duration="one reset; replacement once the threshold is passed",
    blast="GPU",
    source="Llama 3 (19 interruptions)",
    first_step="Reset the GPU and read the threshold flag; when it is set, order a replacement.",
)
