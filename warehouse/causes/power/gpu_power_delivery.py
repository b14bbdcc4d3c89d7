"""GPU board power missing."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="GPU board power missing",
    rank=12,
    state=State.DOWN,
    owner="facility",
    signature="Xid 54, or the board's power cannot be read any more.",
    duration="hours",
    blast="GPU or node",
    source="NVIDIA Xid catalogue and DCGM error codes",
    first_step="Drain the node and check the auxiliary power cables of the board.",
)
