"""Storage full or over quota."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Storage full or over quota",
    rank=54,
    state=State.DOWN,
    owner="storage",
    signature="No free bytes or inodes are left on the checkpoint path.",
    duration="hours",
    blast="jobs",
    source="ByteRobust (disk space)",
    first_step="Free or grant space on the checkpoint path first, then restart the job.",
)
