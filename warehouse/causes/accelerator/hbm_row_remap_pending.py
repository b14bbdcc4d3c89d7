"""Row remap waits for a reset."""

from warehouse.model.cause import Cause

CAUSE = Cause(
    title="Row remap waits for a reset",
    rank=32,
    state=None,
    owner="hardware",
    signature="Xid 63, 156 or 160, or gpuminutes_gpu_row_remap_pending is 1.",
    duration="minutes, at the next reset",
    blast="GPU",
    source="Delta (95 row remap events)",
    first_step="Plan a GPU reset at the next gap between jobs; work may go on until then.",
)
