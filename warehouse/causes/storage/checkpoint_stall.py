"""Checkpoint writes stall."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Checkpoint writes stall",
    rank=52,
    state=State.CHECKPOINT,
    owner="storage",
    signature=(
        "Writing a checkpoint takes far longer than the job's own baseline and "
        "node_nfs_rpc_retransmissions_total rises."
    ),
    duration="minutes",
    blast="job",
    source="Lablup (NFS calls), Llama 3 (write bursts)",
    first_step="See how many jobs save at once and spread their saves before touching the server.",
)
