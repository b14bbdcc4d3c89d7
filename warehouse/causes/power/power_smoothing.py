"""Power smoothing fault."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Power smoothing fault",
    rank=13,
    state=State.DEGRADED,
    owner="facility",
    signature="Xid 162 to 165 on a Blackwell GPU.",
    duration="until serviced",
    blast="GPU",
    source="NVIDIA Xid catalogue",
    first_step="Note the Xid and firmware version, and plan a reset at the next gap between jobs.",
)
