"""GPU memory exhausted by the job."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="GPU memory exhausted by the job",
    rank=71,
    state=State.LOST_WORK,
    owner="workload",
    signature=(
        "The job's log says out of memory, used GPU memory was at its maximum before the exit, and there is no Xid."
    ),
    duration="minutes",
    blast="job",
    source="Acme (14 faults) (Acme figure recalled, not checked at the source)",
    first_step="Tell the owner; a smaller batch or activation checkpointing gets the job going again.",
)
