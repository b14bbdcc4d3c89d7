"""Free GPUs in the wrong places."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Free GPUs in the wrong places",
    rank=67,
    state=State.IDLE_BLOCKED,
    owner="scheduling",
    signature="Demand waits and GPUs are free at the same time for longer than the agreed limit.",
    duration="minutes to hours",
    blast="fleet",
    source="Meta RSC, Google (scheduling goodput)",
    first_step="Compare the waiting shapes with the free shapes; defragment or let small jobs fill in.",
    opens_incident=False,
)
