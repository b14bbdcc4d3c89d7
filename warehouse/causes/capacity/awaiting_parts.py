"""Waiting for spare parts."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Waiting for spare parts",
    rank=5,
    state=State.DOWN,
    owner="capacity",
    signature="A GPU or node stays down past the agreed repair time while its replacement order is open.",
    duration="days to weeks",
    blast="GPU or node",
    source="InfiniteHBD trace: mean repair 133 h against a median of 20 h",
    first_step="Check the open replacement order and its promised date; ask for a swap from the spare pool.",
)
