"""Maintenance without a window."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Maintenance without a window",
    rank=64,
    state=State.DOWN,
    owner="operations",
    signature="A node is cordoned or drained and no window was declared, or a window ran past its end.",
    duration="hours",
    blast="node",
    source="Llama 3 (32 interruptions)",
    first_step=("Ask whoever drained the node for the reason and an end; declare the rest of the work as a window."),
)
