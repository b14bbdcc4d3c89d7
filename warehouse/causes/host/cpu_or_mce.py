"""CPU or machine check fault."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="CPU or machine check fault",
    rank=21,
    state=State.DOWN,
    owner="hardware",
    signature=(
        "node_edac_uncorrectable_errors_total rises, the kernel logs a machine check, or the BMC logs a "
        "critical interrupt."
    ),
    duration="hours to days",
    blast="node",
    source="Llama 3 (2 interruptions), InfiniteHBD trace (3 faults)",
    first_step="Drain the node, decode the machine check for its socket, and open a replacement order.",
)
