"""GPU fault, kind not stated: the source names the family and nothing more."""

from __future__ import annotations

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="GPU fault, kind not stated by the source",
    rank=34,
    state=State.DOWN,
    owner="hardware",
    signature="a human or vendor record says GPU failure (Xid without number, unknown device error) and no more",
    duration="h - days",
    blast="GPU/node",
    source="InfiniteHBD trace: 54 of 158 GPU faults carry no finer description",
    first_step="Look for the Xid in the kernel log of that hour, then restate the evidence with the finer cause.",
)
