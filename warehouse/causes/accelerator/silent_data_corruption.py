"""Silent data corruption."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Silent data corruption",
    rank=34,
    state=State.LOST_WORK,
    owner="hardware",
    signature="A loss spike or NaN in the job's own metrics, and one GPU that fails a bit-exact test.",
    duration="days before it is found",
    blast="job",
    source="Llama 3 (6 interruptions), Google (one every week or two), InfiniteHBD trace (1 fault)",
    first_step=(
        "Bisect the job's nodes with a bit-exact test and find the last checkpoint from before the first bad step."
    ),
)
