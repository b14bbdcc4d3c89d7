"""CPU to GPU link fault."""

from warehouse.model.cause import Cause

CAUSE = Cause(
    title="CPU to GPU link fault",
    rank=41,
    state=None,
    owner="fabric",
    signature="Xid 121 or 159 on a superchip.",
    duration="until the next service window",
    blast="superchip",
    source="NVIDIA Xid catalogue",
    first_step=("Note it and plan a reset in the next service window; drain at once if the count keeps rising."),
)
