"""Silent data corruption."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

# No series shows it, by its nature: the GPU gives wrong numbers and reports no error.
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
    payer="provider",
    runbook=(
        "Stop the job and keep its logs: the first step with a strange loss or gradient norm dates the fault.",
        "Run the same batch twice on halves of the nodes and follow the half whose results differ.",
        "Run `dcgmi diag -r 4` on the suspects; a pass is no proof of health.",
        "Take the GPU out, and start again from a checkpoint from before the first bad step.",
        "Import the time from that step to the stop as evidence of lost work (`gpu-minutes import`).",
    ),
    other_sources=("job progress", "a bit-exact test", "a person: import evidence"),
)
