"""PCIe link fault."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="PCIe link fault",
    rank=22,
    state=State.DEGRADED,
    owner="hardware",
    signature=(
        "gpuminutes_gpu_pcie_replays_total rises quickly, link width or generation is below what the "
        "slot can do, or Xid 32, 80 or 167."
    ),
    duration="hours",
    blast="GPU or node",
    source="Meta RSC (57 % and 37 % of PCIe faults come without an Xid), InfiniteHBD trace (25 width faults)",
    first_step=("Compare the link width with the slot's under load, then reseat the riser or the board."),
)
