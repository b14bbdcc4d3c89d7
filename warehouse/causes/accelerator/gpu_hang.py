"""GPU stopped answering its work."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="GPU stopped answering its work",
    rank=32,
    state=State.HUNG,
    owner="hardware",
    signature=("Xid 8, 46, 109 or 158; or utilisation at 100 % with tensor activity near 0 and no step completed."),
    duration="10 to 60 min",
    blast="job",
    source="Llama 3 (faulty GPU class)",
    first_step="Take stack dumps of the ranks, then kill the job and reset the GPU that stopped first.",
)
