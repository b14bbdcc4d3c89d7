"""Allocated but idle."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Allocated but idle",
    rank=73,
    state=State.IDLE_ALLOCATED,
    owner="workload",
    signature=(
        "GPUs are allocated, engine activity stays under 1 % for more than 15 min, and nothing points to a hang."
    ),
    duration="hours",
    blast="job",
    source="field experience, no figure; jobstats",
    first_step="Ask the owner whether the allocation is still needed before releasing it.",
    opens_incident=False,
)
