"""Framework bug."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Framework bug",
    rank=71,
    state=State.LOST_WORK,
    owner="workload",
    signature="All ranks leave with an error and nothing in the infrastructure speaks against it.",
    duration="minutes",
    blast="job",
    source="Llama 3 (54 interruptions)",
    first_step="Collect the first rank's stack trace and hand it to the owners of the framework.",
)
