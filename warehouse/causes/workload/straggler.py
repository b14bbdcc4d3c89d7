"""One rank slows the rest."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="One rank slows the rest",
    rank=72,
    state=State.DEGRADED,
    owner="workload",
    signature=(
        "One rank's step or arrival comes later than its peers' by more than the limit, and no hardware cause is found."
    ),
    duration="hours to days",
    blast="job",
    source="Google (step deviation), OSDI 2025 straggler study",
    first_step="Swap the slow rank's node out and see whether the slowness goes with it.",
)
