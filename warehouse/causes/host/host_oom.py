"""Host ran out of memory."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Host ran out of memory",
    rank=24,
    state=State.LOST_WORK,
    owner="hardware",
    signature=("node_vmstat_oom_kill rises, a container ended with OOMKilled, or the process left with code 137."),
    duration="minutes",
    blast="job",
    source="Acme (data loader killed) (Acme figure recalled, not checked at the source), ByteRobust, Philly",
    first_step="Find the killed process in the kernel log; give the job more memory or fewer loader workers.",
)
