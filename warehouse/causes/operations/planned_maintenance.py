"""Planned maintenance."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Planned maintenance",
    rank=64,
    state=State.MAINTENANCE,
    owner="operations",
    signature="A maintenance window or reservation was declared, or the node is unschedulable with a ticket.",
    duration="hours",
    blast="as declared",
    source="Llama 3 (47 interruptions)",
    first_step="Nothing to repair; check that the window ends when it was said to.",
    opens_incident=False,
)
