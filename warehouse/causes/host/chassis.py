"""Chassis, board or riser fault."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Chassis, board or riser fault",
    rank=25,
    state=State.DOWN,
    owner="hardware",
    signature="BMC sensors of the board, riser or battery are out of range.",
    duration="days",
    blast="node",
    source="Llama 3 (2 interruptions), InfiniteHBD trace",
    first_step="Drain the node and open a hardware ticket with the BMC event log attached.",
)
