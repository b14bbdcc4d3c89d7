"""Row remapping failed."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Row remapping failed",
    rank=31,
    state=State.DOWN,
    owner="hardware",
    signature="Xid 64, 157 or 161, or gpuminutes_gpu_row_remap_failed is 1.",
    duration="days, until the board is replaced",
    blast="GPU",
    source="Delta (8 on H100)",
    first_step="Take the GPU out of service and order a replacement: it has no spare rows left.",
)
