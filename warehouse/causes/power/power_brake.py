"""Hardware power brake."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Hardware power brake",
    rank=10,
    state=State.DEGRADED,
    owner="facility",
    signature="The clock event seconds for the hardware power brake rise.",
    duration="seconds to hours",
    blast="power supply, PDU or rack",
    source="NVIDIA DCGM header, clock event bit 0x80: core clock at half or less",
    first_step=(
        "Read supply and PDU load of the rack; an overloaded or failed supply pulls the brake on all its GPUs."
    ),
)
