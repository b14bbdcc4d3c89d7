"""Local disk fault."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Local disk fault",
    rank=23,
    state=State.DOWN,
    owner="hardware",
    signature=(
        "node_filesystem_device_error or node_filesystem_readonly is 1, or the drive's own health report fails."
    ),
    duration="hours",
    blast="node",
    source="Llama 3 (3 interruptions), Meta RSC (block device check)",
    first_step="Drain the node, save what the job still needs from the disk, and swap the drive.",
)
