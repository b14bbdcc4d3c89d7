"""NVLink fault."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="NVLink fault",
    rank=40,
    state=State.HUNG,
    owner="fabric",
    signature=("Xid 74, 136, 144 to 150 or 155, a link's error counters rise, or the switch logs an SXid."),
    duration="10 to 60 min",
    blast="node, or the rack on NVL72",
    source="Acme (54 faults, 30.3 % of GPU time) (Acme figure recalled, not checked at the source), Delta",
    first_step=(
        "Find the GPU that failed first, drain the node or rack, and reset all GPUs on the link domain together."
    ),
)
