"""Scheduler outage."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Scheduler outage",
    rank=62,
    state=State.IDLE_BLOCKED,
    owner="platform",
    signature="The scheduler or API server does not answer, and pending work grows together with idle GPUs.",
    duration="minutes to hours",
    blast="fleet",
    source="field experience, no figure",
    first_step="Restore the scheduler before anything else: running jobs go on, freed GPUs stay empty.",
)
