"""Mount missing on some nodes."""

from warehouse.model.cause import Cause
from warehouse.model.state import State

CAUSE = Cause(
    title="Mount missing on some nodes",
    rank=51,
    state=State.DOWN,
    owner="storage",
    signature=("The mount is absent on some nodes only, or node_mountstats_nfs_age_seconds_total starts again from 0."),
    duration="minutes",
    blast="node",
    source="Meta RSC (mount check)",
    first_step="Remount on the nodes named, and keep them drained until the mount check passes.",
)
