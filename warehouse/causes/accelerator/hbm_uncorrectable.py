"""Uncorrectable GPU memory error."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Uncorrectable GPU memory error",
    rank=31,
    state=State.DOWN,
    owner="hardware",
    signature="Xid 48, 94, 95, 140 or 171, or the double-bit count of gpuminutes_gpu_ecc_errors_total rises.",
    duration="5 to 30 min for a reset, hours when the board is replaced",
    blast="GPU (Xid 95) or one application (Xid 94)",
    source=(
        "Llama 3 (72 interruptions), Acme (12) (Acme figure recalled, not checked at the source), Delta,"
        " InfiniteHBD trace (60 faults)"
    ),
    first_step="Reset the GPU once its jobs are off; replace it when rows cannot be remapped.",
)
