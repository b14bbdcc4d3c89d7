"""GPU firmware fault."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="GPU firmware fault",
    rank=32,
    state=State.DOWN,
    owner="hardware",
    signature="Xid 62, 110, 122, 143 or 169.",
    duration="10 to 60 min",
    blast="GPU",
    source="NVIDIA Xid catalogue, Delta (77 power unit faults)",
    first_step="Reset the GPU, then compare its firmware version with the rest of the fleet.",
)
