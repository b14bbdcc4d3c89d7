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
    payer="provider",
    runbook=(
        "Open the ticket of the incident that took the node down, and find its order number and promised date.",
        "Ask the vendor about the date, and the stock room for the same part in the spare pool.",
        "Swap the part, or the node for a spare one, where either is there; record the swap in changes.csv.",
        "Tell the scheduler's owner until when the capacity is short.",
        "Import evidence with this cause from the end of the agreed repair time to the part's arrival.",
    ),
    other_sources=("changes.csv", "ticket system", "a person: import evidence"),
)
