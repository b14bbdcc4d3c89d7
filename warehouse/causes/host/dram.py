"""Host memory fault."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Host memory fault",
    rank=21,
    state=State.DOWN,
    owner="hardware",
    signature=("Uncorrectable memory errors are counted, the node goes down, or it comes back with less memory."),
    duration="hours to days",
    blast="node",
    source="Llama 3 (2 interruptions)",
    first_step="Drain the node and have the module named by the error counters replaced.",
)
